"""A memory that is filled group by group, and whole values placed in it by the planner.

Two buffers may share addresses when their half-open live ranges don't meet. Larger and
longer-lived buffers are placed first, each at the lowest (or highest) gap that holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stages.compiler.tiling.streams import align
from stages.memory_planner.greedy import free_gaps
from stages.memory_planner.problem import Buffer
from stages.memory_planner.solver import lowest_peak

_STEPS = 4_000
"""Search steps for one memory, about half a second where first fit misses the bound by 5 %."""
ENOUGH = 1.05
"""Of the max-live bound: a peak that isn't worth a search."""


@dataclass(frozen=True, slots=True)
class Request:
    """A buffer to place: `size_bytes`, live over `[start, stop)`; `from_top` prefers the highest
    gap."""

    name: str
    size_bytes: int
    start: int
    stop: int
    from_top: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """A request with its address."""

    request: Request
    address: int

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.address + self.request.size_bytes


class Arena:
    """A memory being filled, in `[base, limit)`."""

    def __init__(self, base: int, limit: int, alignment: int) -> None:
        self.base = align(base, alignment)
        self.limit = limit
        self.alignment = alignment
        self.placed: list[Placed] = []

    def place(self, request: Request) -> Placed | None:
        """Place a buffer, or say that no gap holds it."""
        busy = (
            (item.address, item.end)
            for item in self.placed
            if item.request.start < request.stop
            and request.start < item.request.stop
            and item.request.size_bytes
        )
        gaps = free_gaps(busy, self.base, self.limit, self.alignment)
        size = request.size_bytes
        if not request.from_top:
            for low, high in gaps:
                if high - low >= size:
                    return self._put(request, low)
            return None
        for low, high in reversed(list(gaps)):
            address = (high - size) // self.alignment * self.alignment
            if address >= low:
                return self._put(request, address)
        return None

    def place_all(self, requests: Sequence[Request]) -> list[Placed] | None:
        """Place buffers in the order given; all or, with nothing changed, none."""
        before = len(self.placed)
        found = []
        for request in requests:
            placed = self.place(request)
            if placed is None:
                del self.placed[before:]
                return None
            found.append(placed)
        return found

    def _put(self, request: Request, address: int) -> Placed:
        placed = Placed(request, address)
        self.placed.append(placed)
        return placed


def place_within(arena: Arena, requests: Sequence[Request]) -> Request | None:
    """Place whole values into an empty arena: the largest first, or by search where that fails.

    Returns a request that finds no room, with the arena left empty, else None.
    """
    if arena.place_all(largest_first(requests)) is not None:
        return None
    return place_low(arena, requests)


def place_low(arena: Arena, requests: Sequence[Request]) -> Request | None:
    """Place whole values into an empty arena with a low peak; `from_top` is ignored.

    Returns a request that finds no room, with the arena left empty, else None.
    """
    sized = [request for request in requests if request.size_bytes and request.start < request.stop]
    buffers = tuple(
        Buffer(item.name, item.start, item.stop, item.size_bytes, arena.alignment) for item in sized
    )
    found = lowest_peak(buffers, _STEPS, ENOUGH)
    placed = [
        Placed(item, arena.base + found.offsets.get(item.name, 0))
        for item in largest_first(requests)
    ]
    for item in placed:
        if item.end > arena.limit:
            return item.request
    arena.placed += placed
    return None


def largest_first(requests: Sequence[Request]) -> list[Request]:
    """The order in which the greedy solver places buffers."""
    return sorted(
        requests,
        key=lambda item: (-item.size_bytes, item.start - item.stop, item.start, item.name),
    )
