"""What happens when the flow server dies while a run uses it: the run ends soon, says so, and keeps
what its stages made.

Prefect by itself would ask the dead server again for minutes, and end with a traceback. Imports
Prefect only where it was imported already.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from flows.running.flow_server import FlowServer
from flows.running.interrupts import end_without_waiting, stop_what_runs
from stages.errors import RecipeError

_PERIOD_SECONDS = 1.0
_USERS_PERIOD_SECONDS = 5.0
_USERS_PATIENCE = 4  # in a row: a server of the user's may be restarted, and runs survive that


@contextmanager
def watched(server: FlowServer) -> Iterator[None]:
    """Looks after the server meanwhile.

    Raises:
        FlowServerError: the server died; instead of whatever Prefect raised therefore.
    """
    watch = _Watch(server)
    watch.start()
    try:
        yield
    except RecipeError:
        raise
    except Exception as error:
        if watch.look():
            raise server.lost() from error
        raise
    finally:
        watch.stop()


class _Watch:
    def __init__(self, server: FlowServer) -> None:
        self._server = server
        self._ended = threading.Event()
        self._dead = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()

    def look(self) -> bool:
        """Whether the server is dead; asks it, once, where it isn't known to be."""
        if not self._dead.is_set() and not self._server.is_alive():
            self._give_up()
        return self._dead.is_set()

    def _run(self) -> None:
        own = self._server.is_own
        patience = 1 if own else _USERS_PATIENCE
        failures = 0
        while not self._ended.wait(_PERIOD_SECONDS if own else _USERS_PERIOD_SECONDS):
            failures = 0 if self._server.is_alive() else failures + 1
            if failures >= patience and not self._ended.is_set():
                self._give_up()
                return

    def _give_up(self) -> None:
        self._dead.set()
        _ask_no_more()
        end_without_waiting()
        stop_what_runs()


def _ask_no_more() -> None:
    """Lets Prefect's client fail at once, and silently. It would ask for a minute, anew for each
    state, and print what it couldn't send."""
    logging.disable(logging.CRITICAL)
    base = sys.modules.get("prefect.client.base")
    if base is None:
        return

    def refuse(*_arguments: Any, **_options: Any) -> NoReturn:
        raise ConnectionError("the flow server is dead")

    async def refuse_async(*_arguments: Any, **_options: Any) -> NoReturn:
        refuse()

    base.PrefectHttpxSyncClient._send_with_retry = refuse
    base.PrefectHttpxAsyncClient._send_with_retry = refuse_async
