"""Places for what runs side by side, given to the most urgent of those that wait."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Slots:
    """So many places; for many threads. Nobody starves while the work is finite."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: list[tuple[tuple[int, ...], int]] = []
        self._arrivals = 0
        self._changed = threading.Condition()

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        with self._changed:
            return len(self._waiting)

    @contextmanager
    def taken(self, urgency: tuple[int, ...]) -> Iterator[None]:
        """Waits for a place and holds it: smaller urgencies first, and who came first of equals."""
        with self._changed:
            ticket = (urgency, self._arrivals)
            self._arrivals += 1
            heapq.heappush(self._waiting, ticket)
            self._changed.wait_for(lambda: self._free > 0 and self._waiting[0] == ticket)
            heapq.heappop(self._waiting)
            self._free -= 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._changed.notify_all()
