"""Places for what runs side by side, given to the most urgent of those that wait."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_Ticket = tuple[tuple[int, ...], int, threading.Event]


class Slots:
    """So many places; for many threads. Nobody starves while the work is finite.

    Each waits for a bell of its own: hundreds that woke for every place would use up the core that
    the work needs.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: list[_Ticket] = []
        self._arrivals = 0
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        with self._lock:
            return len(self._waiting)

    @contextmanager
    def taken(self, urgency: tuple[int, ...]) -> Iterator[None]:
        """Waits for a place and holds it: smaller urgencies first, and who came first of equals."""
        bell = threading.Event()
        with self._lock:
            heapq.heappush(self._waiting, (urgency, self._arrivals, bell))
            self._arrivals += 1
            self._call_next()
        bell.wait()
        try:
            yield
        finally:
            with self._lock:
                self._free += 1
                self._call_next()

    def _call_next(self) -> None:
        while self._free and self._waiting:
            _, _, bell = heapq.heappop(self._waiting)
            self._free -= 1
            bell.set()
