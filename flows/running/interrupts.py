"""Ctrl-C and SIGTERM: what runs is stopped and cleans up, then the run itself ends."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_HEARD = (signal.SIGINT, signal.SIGTERM)
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


@contextmanager
def interruptible() -> Iterator[None]:
    """Meanwhile an interrupt stops what has asked for it, and raises KeyboardInterrupt here."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        stop_what_runs()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _HEARD}
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted: finished stages keep their results", file=sys.stderr)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
