"""A memory that is filled group by group, and whole values placed in it by the planner.

Two buffers may share addresses when their half-open live ranges don't meet. Larger and
longer-lived buffers are placed first, each at the lowest (or highest) gap that holds it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from stages.compiler.tiling.streams import align
from stages.memory_planner.greedy import free_gaps
from stages.memory_planner.problem import Buffer
from stages.memory_planner.solver import lowest_peak

_STEPS = 4_000
"""Search steps for one memory, about half a second where first fit misses the bound by 5 %."""
_BRIEF = 64
"""Instants for which a buffer may be live and still be listed for each of them."""
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

    @property
    def is_brief(self) -> bool:
        """Whether it is live, and not for long."""
        return 0 < self.stop - self.start <= _BRIEF


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
        self._placed: list[Placed] = []
        self._live: defaultdict[int, list[Placed]] = defaultdict(list)
        self._begun: defaultdict[int, list[Placed]] = defaultdict(list)
        self._others: list[Placed] = []

    @property
    def placed(self) -> Sequence[Placed]:
        """What is in it, in the order in which it came."""
        return self._placed

    def place(self, request: Request) -> Placed | None:
        """Place a buffer, or say that no gap holds it."""
        start, stop = request.start, request.stop
        busy = {
            (item.address, item.end)
            for item in self._near(request)
            if item.request.start < stop and start < item.request.stop and item.request.size_bytes
        }
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
        before = len(self._placed)
        found = []
        for request in requests:
            placed = self.place(request)
            if placed is None:
                self._take_out(before)
                return None
            found.append(placed)
        return found

    def hold(self, placed: Iterable[Placed]) -> None:
        """Take buffers that have their addresses already."""
        for item in placed:
            self._placed.append(item)
            for items in self._lists(item.request):
                items.append(item)

    def _put(self, request: Request, address: int) -> Placed:
        placed = Placed(request, address)
        self.hold([placed])
        return placed

    def _take_out(self, kept: int) -> None:
        """Take out what came behind the first `kept`: the last of every list that it is in."""
        while len(self._placed) > kept:
            for items in self._lists(self._placed.pop().request):
                items.pop()

    def _lists(self, request: Request) -> list[list[Placed]]:
        """The lists that a buffer is in: where it is brief, that of each instant of its life, and
        that of what begins when it does."""
        if not request.is_brief:
            return [self._others]
        lived = range(request.start, request.stop)
        return [self._begun[request.start], *(self._live[instant] for instant in lived)]

    def _near(self, request: Request) -> Iterable[Placed]:
        """At least all that is live together with a buffer. Most of what is placed is brief, and
        meets few of the others."""
        if not request.is_brief:
            return self._placed
        later = range(request.start + 1, request.stop)
        return chain(
            self._others,
            self._live[request.start],
            *(self._begun[instant] for instant in later),
        )


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
    arena.hold(placed)
    return None


def largest_first(requests: Sequence[Request]) -> list[Request]:
    """The order in which the greedy solver places buffers."""
    return sorted(
        requests,
        key=lambda item: (-item.size_bytes, item.start - item.stop, item.start, item.name),
    )
