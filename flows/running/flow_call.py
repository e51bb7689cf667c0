"""How a command calls a flow of ours in its own process, and how such a flow run ends.

A flow run's state carries a message and no result, and its parameters must fit a deployment; so
what else a command gives, and the result that it wants, pass through the call. Importing this
module imports Prefect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows.locks.file_lock import warn
from stages.errors import Outcome

_Given = TypeVar("_Given")
_Result = TypeVar("_Result")


@dataclass(slots=True)
class FlowCall(Generic[_Given, _Result]):
    """One call: what the command gives besides the parameters, and what the flow came to."""

    given: _Given
    result: _Result | None = None


class FlowCalls(Generic[_Given, _Result]):
    """The calls of one flow. A run that a deployment started has none."""

    def __init__(self, flow_name: str) -> None:
        self._current: ContextVar[FlowCall[_Given, _Result] | None] = ContextVar(
            flow_name, default=None
        )

    def current(self) -> FlowCall[_Given, _Result] | None:
        """The call that the flow runs in; None where no command made one."""
        return self._current.get()

    def make(self, given: _Given, start: Callable[[], State[Any]]) -> _Result:
        """The result of the flow that `start` runs, which sets it on the current call. A server
        that goes away after that takes nothing with it.

        Raises:
            Exception: what broke the flow before it had a result.
        """
        call: FlowCall[_Given, _Result] = FlowCall(given)
        token = self._current.set(call)
        try:
            state = start()
            if call.result is None:
                state.result()  # raises what broke it
                raise AssertionError(f"no result, and no error: {state}")
        except Exception as error:
            if call.result is None:
                raise
            warn(f"warning: the flow server didn't take the end of the run: {error}")
        finally:
            self._current.reset(token)
        return call.result


@contextmanager
def publishing(what: str) -> Iterator[None]:
    """Meanwhile artifacts go to the flow's page; a server that went away costs a warning."""
    try:
        yield
    except Exception as error:
        warn(f"warning: {what} isn't on the flow's page: {error}")


def end_state(outcome: Outcome, message: str) -> State[Any]:
    """How a flow or task run ends: well only where everything passed."""
    return Completed(message=message) if outcome is Outcome.PASSED else Failed(message=message)


def headline_state(outcome: Outcome, headline: str) -> State[Any]:
    """The same with a headline, and the exit code where it isn't zero."""
    ended = "" if outcome is Outcome.PASSED else f"; exit code {outcome.value}"
    return end_state(outcome, f"{headline}{ended}")
