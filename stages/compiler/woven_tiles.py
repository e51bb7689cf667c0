"""The tiles of a woven plan, tried where they work.

Prices tell what a group costs beside neighbours that keep out of its way. In a woven plan it also
counts how soon a group's first part is there for the next one to begin with: rows of a matmul cut
in two let a LayerNorm work on the first half while the second is made, and cost the weights twice.
Whether that pays depends on what else the DMA carries then. So a stretch of the program, one and a
half of its layers, is woven by itself with each of a few tiles, and the device's clock tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, inf

from stages.compiler.draft import Draft
from stages.compiler.emit.examples import Example
from stages.compiler.emit.plan import PlanEmitter
from stages.compiler.memory.assign import Assignment, Memory
from stages.compiler.periods import longest_period
from stages.compiler.schedule.reorder import WAYS, Way
from stages.compiler.tiling.weighing import tile_name
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Tile
from stages.recipe.explanation import Alternative, Weighed
from stages.recipe.kinds import Kind

_STRETCH = 1.5
"""Periods that are timed: one is short of what overlaps at its ends."""
_MOST_BLOCKS = 3
"""Row blocks that are tried, at most."""
_DEARER = 2.0
"""Tiles that are this much dearer by themselves aren't tried."""
_LEAST_SHARE = 0.02
"""Of a period's cycles: kinds of groups below aren't tried."""
_BY_ROWS = frozenset({Kind.MATMUL, Kind.SOFTMAX, Kind.LAYER_NORM})
_GAIN = 0.998
"""Of the cycles of the best so far: what gains less isn't taken."""

Solved = tuple[Draft, Memory]


@dataclass(frozen=True, slots=True)
class Woven:
    """What a woven plan is emitted from: a draft and its memory, and the ways to weave, the best
    first."""

    draft: Draft
    memory: Memory
    ways: tuple[Way, ...]


def tried_in_place(solved: Solved, assignment: Assignment, spec: HardwareSpec) -> Woven:
    """A solution with all values in the DDR, the tiles of repeated groups tried in place. As it
    was, where nothing repeats."""
    draft, memory = solved
    works = assignment.works
    kinds = [
        works[number].first.group.name if number in works else group.engine
        for number, group in enumerate(draft.recipe.groups)
    ]
    period = longest_period(kinds)
    if period is None:
        return Woven(draft, memory, WAYS)
    stop = min(period.stop, period.start + ceil(_STRETCH * period.length))
    return _Trials(assignment, spec, (period.start, stop), solved).run(period.length)


@dataclass(slots=True)
class _Trials:
    """Tiles tried in the groups `[start, stop)`; `best` is the best solution so far."""

    assignment: Assignment
    spec: HardwareSpec
    stretch: tuple[int, int]
    best: Solved
    cycles: int | None = None
    ways: tuple[Way, ...] = WAYS
    examples: dict[object, Example] = field(default_factory=dict)
    weighed: list[Weighed] = field(default_factory=list)

    def run(self, period: int) -> Woven:
        """Try each kind of group of a period, the largest first."""
        self._rank()
        if self.cycles is not None:
            for number in self._worth_trying(period):
                self._try(number)
            self._rank()
        draft, memory = self.best
        return Woven(draft.with_weighed(self.weighed), memory, self.ways)

    def _rank(self) -> None:
        """Put the ways in order, the fastest first, those that find no room last."""
        times = self._timed(self.best, WAYS)
        ranked = sorted(
            zip(times, WAYS, strict=True), key=lambda item: inf if item[0] is None else item[0]
        )
        self.cycles = ranked[0][0]
        self.ways = tuple(way for _, way in ranked)

    def _worth_trying(self, period: int) -> list[int]:
        """The first group of each kind in one period that takes a share of its cycles."""
        start = self.stretch[0]
        cycles = self.best[1].cycles
        mine: dict[str, list[int]] = {}
        for number in range(start, start + period):
            if number in self.assignment.works:
                mine.setdefault(self._kind(number), []).append(number)
        total = sum(cycles[number] for numbers in mine.values() for number in numbers)
        taken = {numbers[0]: sum(cycles[number] for number in numbers) for numbers in mine.values()}
        large = [
            number
            for number in taken
            if taken[number] >= _LEAST_SHARE * total and self._works_by_rows(number)
        ]
        return sorted(large, key=lambda number: (-taken[number], number))

    def _works_by_rows(self, number: int) -> bool:
        """Whether it counts how a group's rows are cut: it is a matmul, or waits for whole rows."""
        return self.assignment.works[number].seed.kind in _BY_ROWS

    def _kind(self, number: int) -> str:
        return self.assignment.works[number].first.group.name

    def _try(self, number: int) -> None:
        """Try the row blocks of one kind of group."""
        assert self.cycles is not None
        group = self.best[0].recipe.groups[number]
        assert group.tile is not None
        kind = self._kind(number)
        alike = [other for other in self.assignment.works if self._kind(other) == kind]
        told = [Alternative(tile_name(group.tile), self.cycles, "the cheapest by itself")]
        chosen = group.tile
        for priced in self.assignment.row_blocks(number, group.tile, _MOST_BLOCKS, _DEARER):
            if priced.tile == group.tile:
                continue
            solved = self.assignment.retiled(self.best, alike, priced)
            cycles = None if solved is None else self._timed(solved, self.ways[:1])[0]
            remark = "no room beside its neighbours" if cycles is None else f"{priced.steps} steps"
            told.append(Alternative(tile_name(priced.tile), cycles, remark))
            if solved is not None and cycles is not None and cycles < self.cycles * _GAIN:
                self.best, self.cycles, chosen = solved, cycles, priced.tile
        if len(told) > 1:
            names = [self.best[0].recipe.groups[other].name for other in alike]
            self.weighed += [_weighed(name, told, chosen) for name in names]

    def _timed(self, solved: Solved, ways: Sequence[Way]) -> list[int | None]:
        emitter = PlanEmitter(*solved, self.spec, examples=self.examples)
        emitter.write_segment(*self.stretch)
        return emitter.woven_cycles(ways)


def _weighed(group: str, told: Sequence[Alternative], chosen: Tile) -> Weighed:
    bound = "cycles of a stretch of the program, woven with each of them"
    return Weighed(group, "tile in place", tuple(told), tile_name(chosen), bound)
