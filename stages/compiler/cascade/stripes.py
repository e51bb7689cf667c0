"""Stripes: which rows each group of a chain makes in each round, and where they lie in buffers.

A result that passes within the chain lies in a buffer of `capacity` rows. Rows are appended round
by round; where the next ones find no room, a new lap begins: the rows that are needed then are made
again from the first on.
Regions of a plan don't wrap around, so this is what a rolling buffer comes to: a buffer with room
for one round makes its halo again each time, one with room for several rounds seldom, and nothing
is ever copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stages.compiler.cascade.chains import Chain
from stages.compiler.tiling.footprint import Span
from stages.compiler.tiling.workload import Boxes
from stages.recipe.decisions import Cascade
from stages.tensors import Box


@dataclass(frozen=True, slots=True)
class Part:
    """What one group (by its place in the chain) makes in one round: the rows `span` of its
    result. `base`: the row with which the buffer of its result begins, where it has one."""

    place: int
    span: Span
    base: int


@dataclass(frozen=True, slots=True)
class Striped:
    """A chain cut in stripes: its parts in the order in which they run, `rounds` rounds of them,
    and how many rows each buffer takes. All that the chain holds has one; so may results that
    others read too: their rows go from there to their place."""

    chain: Chain
    stripe: int
    rounds: int
    parts: tuple[Part, ...]
    capacities: Mapping[str, int]

    @property
    def shared(self) -> frozenset[str]:
        """What has a buffer and is read elsewhere too."""
        return frozenset(self.capacities) - frozenset(self.chain.held)

    def decision(self) -> Cascade:
        """The cascade as the recipe says it."""
        names = tuple(work.group.name for work in self.chain.works)
        return Cascade(names, self.chain.axes[-1], self.stripe)

    def buffer_box(self, value: str) -> Box:
        """The box of as many rows of a value as its buffer holds, from the first on."""
        return self.chain.rows_of(value, 0, self.capacities[value])

    def boxes(self, part: Part) -> Boxes:
        """The boxes of every value of a part's group."""
        return self.chain.boxes(part.place, part.span)


def striped(chain: Chain, stripe: int, wanted: Mapping[str, int]) -> Striped:
    """Follow a chain stripe by stripe. `wanted`: rows that the buffers should hold, of all that the
    chain holds at least; one that needs more in any round gets more."""
    tracer = _Tracer(chain, dict(wanted))
    rounds = -(-chain.extent // stripe)
    parts: list[Part] = []
    for number in range(rounds):
        stop = min((number + 1) * stripe, chain.extent)
        parts += tracer.round((number * stripe, stop), number == rounds - 1)
    return Striped(chain, stripe, rounds, tuple(parts), tracer.capacities)


@dataclass(slots=True)
class _Tracer:
    """What each result's buffer holds after the rounds so far: rows `[base, end)`."""

    chain: Chain
    capacities: dict[str, int]
    reads: list[list[tuple[str, int]]] = field(init=False)
    bases: list[int] = field(init=False)
    ends: list[int] = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.chain.works)
        self.reads = [self._reads(place) for place in range(count)]
        self.bases, self.ends = [0] * count, [0] * count
        self.capacities = dict.fromkeys(self.chain.held, 1) | self.capacities

    def round(self, stripe: Span, is_last: bool) -> list[Part]:
        """The parts of the next round; in the last one every result is finished."""
        passes = self.chain.passes
        needed: dict[str, Span] = {passes[-1]: stripe}
        made: dict[str, tuple[Span, int] | None] = {}
        parts = []
        for place in reversed(range(len(passes))):
            value = passes[place]
            # Who makes another part of the same rows makes them at the same time.
            if value not in made:
                made[value] = self._made(place, needed.get(value), is_last)
            found = made[value]
            if found is None:
                continue
            span, self.bases[place] = found
            self.ends[place] = span[1]
            parts.append(Part(place, span, self.bases[place]))
            boxes = self.chain.boxes(place, span)
            for operand, axis in self.reads[place]:
                rows = boxes[operand][axis]
                other = needed.get(operand, rows)
                needed[operand] = (min(rows[0], other[0]), max(rows[1], other[1]))
        return parts[::-1]

    def _made(self, place: int, needed: Span | None, is_last: bool) -> tuple[Span, int] | None:
        """The rows that a group makes in this round, where it makes any, and the first row of its
        buffer."""
        work, value, end = self.chain.works[place], self.chain.passes[place], self.ends[place]
        low, high = needed if needed is not None else (end, end)
        if is_last:
            high = work.result_type.shape[self.chain.axes[place]]
        low = min(low, end)
        starts_over = low < self.bases[place]
        if value in self.capacities and high > low:
            capacity = self.capacities[value]
            starts_over |= high - self.bases[place] > capacity
            if starts_over:
                self.capacities[value] = max(capacity, high - low)
        if not starts_over:
            low = end
        if high <= low:
            return None
        return (low, high), low if starts_over else self.bases[place]

    def _reads(self, place: int) -> list[tuple[str, int]]:
        """The inner values that a group reads, with the axes along which they are cut."""
        chain = self.chain
        made = dict(zip(chain.passes[:place], chain.axes, strict=False))
        return [(value, made[value]) for value in chain.works[place].operands if value in made]
