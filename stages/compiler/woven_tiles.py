"""The tiles of a woven plan, tried where they work.

Prices tell what a group costs beside neighbours that keep out of its way. In a woven plan it also
counts how soon a group's first part is there for the next one to begin with: rows of a matmul cut
in two let a LayerNorm work on the first half while the second is made, and cost the weights twice.
Fewer columns at a time leave room for what comes next. Whether that pays depends on what else the
DMA carries and the SRAM holds then. So a stretch of the program, one and a half of its layers, is
woven by itself with other tiles, and the device's clock tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil

from stages.compiler.draft import Draft
from stages.compiler.emit.examples import Example
from stages.compiler.emit.plan import PlanEmitter
from stages.compiler.memory.assign import Assignment, Memory
from stages.compiler.periods import longest_period
from stages.compiler.schedule.attempts import ATTEMPTS, Attempt
from stages.compiler.tiling.search import Priced
from stages.compiler.tiling.weighing import tile_name
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Tile
from stages.recipe.explanation import Alternative, Weighed
from stages.recipe.kinds import Kind

_STRETCH = 1.5
"""Periods that are timed: one is short of what overlaps at its ends."""
_COVER = 2
"""Nothing is tried where less than one part in so many of the groups repeats."""
_DEARER = 2.0
"""Tiles that are this much dearer by themselves aren't tried."""
_LEAST_SHARE = 0.02
"""Of a period's cycles: kinds of groups below aren't tried."""
_BY_ROWS = frozenset({Kind.MATMUL, Kind.SOFTMAX, Kind.SOFTMAX_NUMERATOR})
"""Kinds whose row blocks were found to matter."""
_CONTENDERS = 2
"""Attempts that are made with each tile: those that were the fastest so far."""
_GAIN = 0.998
"""Of the cycles of the best so far: what gains less isn't taken."""

Solved = tuple[Draft, Memory]
Cut = Callable[[Tile], Priced | None]
"""Another tile of a group, given the best one so far; None where there is none worth a trial."""


@dataclass(frozen=True, slots=True)
class Woven:
    """What a woven plan is emitted from: a draft and its memory, and the attempts to weave it, the
    most promising one first."""

    draft: Draft
    memory: Memory
    attempts: tuple[Attempt, ...]


def tried_in_place(solved: Solved, assignment: Assignment, spec: HardwareSpec) -> Woven:
    """A solution with all values in the DDR, the tiles of repeated groups tried in place. As it
    was, where little repeats."""
    draft, memory = solved
    works = assignment.works
    kinds = [
        works[number].first.group.name if number in works else group.engine
        for number, group in enumerate(draft.recipe.groups)
    ]
    period = longest_period(kinds)
    if period is None or (period.stop - period.start) * _COVER < len(kinds):
        return Woven(draft, memory, ATTEMPTS)
    stop = min(period.stop, period.start + ceil(_STRETCH * period.length))
    return _Trials(assignment, spec, (period.start, stop), solved).run(period.length)


@dataclass(slots=True)
class _Trials:
    """Tiles tried in the groups `[start, stop)`; `best` is the best solution so far, `ends` what
    each attempt to weave it takes, those that find no room left out."""

    assignment: Assignment
    spec: HardwareSpec
    stretch: tuple[int, int]
    best: Solved
    ends: dict[Attempt, int] = field(default_factory=dict)
    examples: dict[object, Example] = field(default_factory=dict)
    weighed: list[Weighed] = field(default_factory=list)

    def run(self, period: int) -> Woven:
        """Try each kind of group of a period, the largest first."""
        self.ends = self._timed(self.best, ATTEMPTS)
        if self.ends:
            for number in self._worth_trying(period):
                self._try(number)
        draft, memory = self.best
        return Woven(draft.with_weighed(self.weighed), memory, self._ranked())

    def _ranked(self) -> tuple[Attempt, ...]:
        """The attempts, the fastest first, and those last that found no room or weren't made."""
        ranked = sorted(self.ends, key=lambda attempt: self.ends[attempt])
        return (*ranked, *(attempt for attempt in ATTEMPTS if attempt not in self.ends))

    def _worth_trying(self, period: int) -> list[int]:
        """The first group of each kind in one period whose rows count and that takes a share of its
        cycles."""
        works, cycles = self.assignment.works, self.best[1].cycles
        start = self.stretch[0]
        taken: dict[str, int] = {}
        first: dict[str, int] = {}
        for number in range(start, start + period):
            if number in works:
                kind = self._kind(number)
                taken[kind] = taken.get(kind, 0) + cycles[number]
                if works[number].seed.kind in _BY_ROWS and works[number].result_type.rank > 1:
                    first.setdefault(kind, number)
        total = sum(taken.values())
        large = [kind for kind in first if taken[kind] >= _LEAST_SHARE * total]
        return [first[kind] for kind in sorted(large, key=lambda kind: (-taken[kind], first[kind]))]

    def _kind(self, number: int) -> str:
        return self.assignment.works[number].first.group.name

    def _try(self, number: int) -> None:
        """Try other cuts of one kind of group."""
        tile = self.best[0].recipe.groups[number].tile
        assert tile is not None
        kind = self._kind(number)
        alike = [other for other in self.assignment.works if self._kind(other) == kind]
        told = [Alternative(tile_name(tile), min(self.ends.values()), "the cheapest by itself")]
        chosen = tile
        for cut in self._cuts(number, tile):
            priced = cut(chosen)
            if priced is None:
                continue
            solved = self.assignment.retiled(self.best, alike, priced)
            ends = {} if solved is None else self._timed(solved, self._ranked()[:_CONTENDERS])
            cycles = min(ends.values(), default=None)
            remark = "no room beside its neighbours" if cycles is None else f"{priced.steps} steps"
            told.append(Alternative(tile_name(priced.tile), cycles, remark))
            if solved is not None and cycles is not None and cycles < self._target():
                self.best, self.ends, chosen = solved, ends, priced.tile
        if len(told) > 1:
            names = [self.best[0].recipe.groups[other].name for other in alike]
            self.weighed += [_weighed(name, told, chosen) for name in names]

    def _cuts(self, number: int, tile: Tile) -> list[Cut]:
        """Other ways to cut a group: one row block more; then fewer columns, which leave room for
        more of its weights beforehand, or, where it has no weights, which each row block would
        load, all rows at once."""
        assignment, work = self.assignment, self.assignment.works[number]
        blocks = -(-work.result_type.shape[-2] // tile.extents[-2])

        def in_blocks(count: int) -> Cut:
            return lambda best: assignment.in_row_blocks(number, best, count, _DEARER)

        if work.constants:
            narrower = partial(assignment.in_fewer_columns, number, dearer=_DEARER)
            return [in_blocks(blocks + 1), narrower]
        return [in_blocks(count) for count in ([blocks + 1, 1] if blocks > 1 else [blocks + 1])]

    def _target(self) -> float:
        """Cycles below which another tile is taken."""
        return min(self.ends.values()) * _GAIN

    def _timed(self, solved: Solved, attempts: tuple[Attempt, ...]) -> dict[Attempt, int]:
        emitter = PlanEmitter(*solved, self.spec, examples=self.examples)
        emitter.write_segment(*self.stretch)
        return emitter.woven_cycles(attempts)


def _weighed(group: str, told: Sequence[Alternative], chosen: Tile) -> Weighed:
    bound = "cycles of a stretch of the program, woven with each of them"
    return Weighed(group, "tile in place", tuple(told), tile_name(chosen), bound)
