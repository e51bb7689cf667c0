"""Offsets for buffers whose live ranges are known: the problem, and a greedy solver.

Two buffers may share addresses when their half-open live ranges don't meet. Larger and
longer-lived buffers are placed first, each at the lowest (or highest) gap that holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stages.compiler.tiling.streams import align
from stages.memory_planner.problem import Buffer
from stages.memory_planner.solver import lowest_peak

_STEPS = 4_000
"""Search steps for one memory, about half a second where first fit misses the bound by 5 %."""
_ENOUGH = 1.05
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

    def copy(self) -> Arena:
        """An arena that can be filled further without changing this one."""
        other = Arena(self.base, self.limit, self.alignment)
        other.placed = list(self.placed)
        return other

    def place(self, request: Request) -> Placed | None:
        """Place a buffer, or say that no gap holds it."""
        gaps = self._gaps(request.start, request.stop)
        if request.from_top:
            for low, high in reversed(gaps):
                address = (high - request.size_bytes) // self.alignment * self.alignment
                if address >= low:
                    return self._put(request, address)
            return None
        for low, high in gaps:
            if high - low >= request.size_bytes:
                return self._put(request, low)
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

    def peak_bytes(self) -> int:
        """The highest address in use, counted from the base."""
        return max((placed.end for placed in self.placed), default=self.base) - self.base

    def _put(self, request: Request, address: int) -> Placed:
        placed = Placed(request, address)
        self.placed.append(placed)
        return placed

    def _gaps(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Free ranges over the whole live range, aligned, lowest first."""
        busy = sorted(
            (item.address, item.end)
            for item in self.placed
            if item.request.start < stop and start < item.request.stop and item.request.size_bytes
        )
        gaps = []
        low = self.base
        for address, end in busy:
            if address > low:
                gaps.append((low, address))
            low = max(low, align(end, self.alignment))
        if self.limit > low:
            gaps.append((low, self.limit))
        return gaps


def place_within(arena: Arena, requests: Sequence[Request]) -> Request | None:
    """Place whole values into an empty arena: the largest first, or by search where that fails.

    Returns a request that finds no room, with the arena left empty, else None.
    """
    if arena.place_all(largest_first(requests)) is not None:
        return None
    return place_low(arena, [replace(request, from_top=False) for request in requests])


def place_low(arena: Arena, requests: Sequence[Request]) -> Request | None:
    """Place whole values into an empty arena with a low peak; `from_top` is ignored.

    Returns a request that finds no room, with the arena left empty, else None.
    """
    sized = [request for request in requests if request.size_bytes and request.start < request.stop]
    buffers = tuple(
        Buffer(item.name, item.start, item.stop, item.size_bytes, arena.alignment) for item in sized
    )
    found = lowest_peak(buffers, _STEPS, _ENOUGH)
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


def live_peak_bytes(requests: Sequence[Request]) -> int:
    """The most bytes alive at one instant: no placement needs less."""
    changes: dict[int, int] = {}
    for request in requests:
        if request.stop > request.start:
            changes[request.start] = changes.get(request.start, 0) + request.size_bytes
            changes[request.stop] = changes.get(request.stop, 0) - request.size_bytes
    peak = alive = 0
    for instant in sorted(changes):
        alive += changes[instant]
        peak = max(peak, alive)
    return peak
