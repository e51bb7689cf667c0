"""Ctrl-C and SIGTERM: what runs is stopped and cleans up, then the run itself ends."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_HEARD = (signal.SIGINT, signal.SIGTERM)
_AGAIN_S = 0.01
_stoppers: list[Callable[[], None]] = []
_forsaken = threading.Event()


@contextmanager
def stopped_by_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Meanwhile an interrupt calls `stop`, in a thread of its own."""
    _stoppers.append(stop)
    try:
        yield
    finally:
        _stoppers.remove(stop)


def stop_what_runs() -> None:
    """Calls what has asked for it, each in a thread of its own."""
    for stop in tuple(_stoppers):
        threading.Thread(target=stop).start()


def end_without_waiting() -> None:
    """Lets the process end when the command ends, though threads may wait for what won't come."""
    _forsaken.set()


def must_not_wait() -> bool:
    """Whether that was said."""
    return _forsaken.is_set()


def comes_of_interrupt(error: BaseException) -> bool:
    """Whether an interrupt lies behind the error: extensions turn one that meets them while they're
    imported, or called back, into an error of their own kind.
    """
    seen: list[BaseException] = []
    behind: BaseException | None = error
    while behind is not None and behind not in seen:
        if isinstance(behind, KeyboardInterrupt):
            return True
        seen.append(behind)
        behind = behind.__cause__ or behind.__context__
    return False


def hear_again(lost: sys.UnraisableHookArgs) -> None:
    """A `sys.unraisablehook`: an interrupt that falls into a finaliser, or into a callback such as
    those of Python's import locks, is dropped there; it comes again a moment later. All else is
    told as ever."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    again = threading.Timer(_AGAIN_S, _thread.interrupt_main)
    again.daemon = True
    again.start()


@contextmanager
def interruptible() -> Iterator[None]:
    """Meanwhile an interrupt stops what has asked for it, and raises KeyboardInterrupt here."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        stop_what_runs()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _HEARD}
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        if not comes_of_interrupt(error):
            raise
        print("interrupted: finished stages keep their results", file=sys.stderr)
        raise KeyboardInterrupt from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
