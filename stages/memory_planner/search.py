"""An exact search for offsets within a capacity, by branching and propagating lower bounds.

It looks for *settled* solutions only: those in which no buffer could move down (if any solution
exists, letting its buffers fall gives a settled one). Every buffer has a lower bound of its
offset. A buffer that none of its neighbours can lie beneath is either placed at its bound, which
lifts its neighbours above it, or *delayed*: then something placed later must carry it, which
lifts its own bound to the lowest such top. A section fails when its buffers, stacked from their
bounds, don't end within the capacity.

The section bounds, the splitting into parts that share no section and the static orders follow
MiniMalloc (Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine
Learning", ASPLOS 2023); branching on "here or later" with a bound for "later" is ours, and makes
its dominance rules consequences of the bounds. Effort is counted in steps: placements and delays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from stages.memory_planner.problem import Problem
from stages.memory_planner.strategy import Focus, Strategy, ranked
from stages.memory_planner.sweep import Sweep

_NEVER = 1 << 62


class Ending(Enum):
    """How a search ended."""

    FOUND = "found"
    EXHAUSTED = "exhausted"
    OUT_OF_STEPS = "out of steps"


@dataclass(frozen=True, slots=True)
class _Part:
    """Sections `[first, last)` and their unplaced buffers in the strategy's order. `cause` is
    the number of the decision that split it off (-1: none)."""

    first: int
    last: int
    buffers: tuple[int, ...]
    cause: int


@dataclass(slots=True)
class _State:
    """What a decision changes. `bounds` are the lower bounds of offsets (the offset itself once
    placed), `carried` says whether something placed ends at the bound, `needs` is for a delayed
    buffer the address below which something must come to lie that it overlaps (0: nothing need).
    For each section, `totals` are its bytes to place, `floors` the lowest bound in it, `crossing`
    the unplaced buffers that are live in it and in the next."""

    bounds: list[int]
    carried: list[bool]
    needs: list[int]
    placed: list[bool]
    totals: list[int]
    floors: list[int]
    crossing: list[int]

    def copy(self) -> _State:
        return _State(
            self.bounds.copy(),
            self.carried.copy(),
            self.needs.copy(),
            self.placed.copy(),
            self.totals.copy(),
            self.floors.copy(),
            self.crossing.copy(),
        )


@dataclass(frozen=True, slots=True)
class _Decision:
    """A buffer placed: in which part, with which parts still to solve, what stood before, and the
    decision to take back when this one fails."""

    buffer: int
    part: _Part
    pending: tuple[_Part, ...]
    parent: int
    before: _State


class Search:
    """One search with one strategy; `run` may be called once."""

    def __init__(self, problem: Problem, sections: Sweep, strategy: Strategy, limit: int) -> None:
        self.buffers = problem.buffers
        self.capacity = problem.capacity_bytes
        self.sections = sections
        self.strategy = strategy
        self.limit = limit
        self.steps = 0
        self.sizes = [buffer.size_bytes for buffer in problem.buffers]
        self.alignments = [buffer.alignment_bytes for buffer in problem.buffers]
        self.fixed = [buffer.fixed_offset_bytes for buffer in problem.buffers]
        self.state = self._start()
        self.decisions: list[_Decision] = []

    def offsets(self) -> list[int]:
        """The offset of each buffer, once `run` has found them."""
        return self.state.bounds

    def run(self) -> Ending:
        """Search until a solution is found, none is left, or the steps are spent."""
        if not self._consistent(0, len(self.sections.members)):
            return Ending.EXHAUSTED
        whole = _Part(0, len(self.sections.members), tuple(range(len(self.buffers))), -1)
        pending = self._split(whole, range(whole.first, whole.last - 1))
        part: _Part | None = None
        parent = -1
        while True:
            if part is None:
                if not pending:
                    return Ending.FOUND
                part, pending = pending[0], pending[1:]
                parent = part.cause
            buffer = self._choose(part)
            if buffer is None:
                part = None
                continue
            if self.steps >= self.limit:
                return Ending.OUT_OF_STEPS
            self.steps += 1
            sound = not self._idle(buffer)
            if sound and not self.state.carried[buffer]:
                sound = self._lift(buffer)
            elif sound:
                self.decisions.append(_Decision(buffer, part, pending, parent, self.state.copy()))
                parent = len(self.decisions) - 1
                sound = self._place(buffer)
                if sound:
                    cuts = range(self.sections.first[buffer], self.sections.last[buffer] - 1)
                    if any(not self.state.crossing[section] for section in cuts):
                        pending = self._split(replace(part, cause=parent), cuts) + pending
                        part = None
            if not sound:
                resumed = self._resume(parent)
                if resumed is None:
                    return Ending.EXHAUSTED
                part, pending, parent = resumed.part, resumed.pending, resumed.parent

    def _resume(self, parent: int) -> _Decision | None:
        """Take decisions back until a buffer can be delayed instead; None where none can."""
        while parent >= 0:
            decision = self.decisions[parent]
            del self.decisions[parent:]
            self.state = decision.before
            self.steps += 1
            if self._delay(decision.buffer):
                return decision
            parent = decision.parent
        return None

    def _start(self) -> _State:
        sections = self.sections
        count = len(sections.members)
        crossing = [0] * count
        for first, last in zip(sections.first, sections.last, strict=True):
            for section in range(first, last - 1):
                crossing[section] += 1
        number = len(self.buffers)
        return _State(
            [fixed or 0 for fixed in self.fixed],
            [True] * number,
            [0] * number,
            [False] * number,
            [sum(self.sizes[live] for live in members) for members in sections.members],
            [0] * count,
            crossing,
        )

    def _split(self, part: _Part, cuts: range) -> tuple[_Part, ...]:
        """The parts of a part that no unplaced buffer joins any more."""
        state, sections = self.state, self.sections
        parts = []
        first = part.first
        ends = [section + 1 for section in cuts if not state.crossing[section]]
        for last in (*ends, part.last):
            inside = [
                number
                for number in part.buffers
                if not state.placed[number]
                and sections.first[number] >= first
                and sections.last[number] <= last
            ]
            if inside:
                order = self.strategy.order
                best = ranked(inside, order, self.buffers, sections, state.totals)
                parts.append(_Part(first, last, best, part.cause))
            first = last
        return tuple(parts)

    def _choose(self, part: _Part) -> int | None:
        """The next buffer: no neighbour's bound is below its own. None where all are placed."""
        state = self.state
        bounds, placed = state.bounds, state.placed
        if self.strategy.focus is Focus.LOWEST_BUFFER:
            left = [number for number in part.buffers if not placed[number]]
            return min(left, key=bounds.__getitem__) if left else None
        sections = [section for section in range(part.first, part.last) if state.totals[section]]
        if not sections:
            return None
        totals, floors = state.totals, state.floors
        if self.strategy.focus is Focus.LOWEST_SECTION:
            focus = min(sections, key=lambda section: (floors[section], -totals[section]))
        else:
            focus = max(sections, key=lambda section: (totals[section], -section))
        first, last = self.sections.first, self.sections.last
        chosen = min(
            (
                number
                for number in part.buffers
                if first[number] <= focus < last[number] and not placed[number]
            ),
            key=bounds.__getitem__,
        )
        while True:
            lower = min(
                (other for other in self.sections.neighbours[chosen] if not placed[other]),
                key=bounds.__getitem__,
                default=chosen,
            )
            if bounds[lower] >= bounds[chosen]:
                return chosen
            chosen = lower

    def _idle(self, buffer: int) -> bool:
        """Whether a buffer was delayed for nothing: it could still lie where it was not put."""
        need = self.state.needs[buffer]
        return need > 0 and self._lowest_neighbour(buffer) >= need

    def _lowest_neighbour(self, buffer: int) -> int:
        bounds, placed = self.state.bounds, self.state.placed
        return min(
            (bounds[other] for other in self.sections.neighbours[buffer] if not placed[other]),
            default=_NEVER,
        )

    def _place(self, buffer: int) -> bool:
        """Place a buffer at its bound, lift its neighbours; False where a section fails."""
        state, sections = self.state, self.sections
        bounds, placed, needs = state.bounds, state.placed, state.needs
        low, high = sections.first[buffer], sections.last[buffer]
        offset, size = bounds[buffer], self.sizes[buffer]
        top = offset + size
        placed[buffer] = True
        for section in range(low, high):
            state.totals[section] -= size
        for section in range(low, high - 1):
            state.crossing[section] -= 1
        for other in sections.neighbours[buffer]:
            if placed[other]:
                continue
            if needs[other] > offset:
                needs[other] = 0
            alignment = self.alignments[other]
            lifted = -(-top // alignment) * alignment
            bound = bounds[other]
            if bound <= lifted:
                state.carried[other] = True
                if lifted > bound:
                    if self.fixed[other] is not None:
                        return False
                    bounds[other] = lifted
                    low = min(low, sections.first[other])
                    high = max(high, sections.last[other])
        return self._consistent(low, high)

    def _delay(self, buffer: int) -> bool:
        """Rule out a buffer's bound, and its twins' with it; False where nothing could carry it."""
        state, sections = self.state, self.sections
        offset = state.bounds[buffer]
        twins = [
            other
            for other in sections.neighbours[buffer]
            if not state.placed[other]
            and state.bounds[other] == offset
            and self._twins(buffer, other)
        ]
        for one in (buffer, *twins):
            if not state.needs[one]:
                state.needs[one] = offset + self.sizes[one]
            if self.fixed[one] is not None or self._idle(one):
                return False
            state.carried[one] = False
        return all(self._lift(one) for one in (buffer, *twins))

    def _twins(self, one: int, other: int) -> bool:
        """Whether two buffers may change places in every solution."""
        sections = self.sections
        return (
            sections.first[one] == sections.first[other]
            and sections.last[one] == sections.last[other]
            and self.sizes[one] == self.sizes[other]
            and self.alignments[one] == self.alignments[other]
            and self.fixed[one] == self.fixed[other]
        )

    def _lift(self, buffer: int) -> bool:
        """Raise the bound of a buffer that nothing carries to the lowest top that may yet."""
        state = self.state
        bounds, placed, sizes = state.bounds, state.placed, self.sizes
        top = min(
            (
                bounds[other] + sizes[other]
                for other in self.sections.neighbours[buffer]
                if not placed[other]
            ),
            default=_NEVER,
        )
        alignment = self.alignments[buffer]
        lifted = -(-top // alignment) * alignment
        if lifted + sizes[buffer] > self.capacity:
            return False
        bounds[buffer] = max(bounds[buffer], lifted)
        return self._consistent(self.sections.first[buffer], self.sections.last[buffer])

    def _consistent(self, first: int, last: int) -> bool:
        """Renew the floors of sections, and say whether each can still end within the capacity."""
        state, capacity, sizes = self.state, self.capacity, self.sizes
        bounds, placed, totals, floors = state.bounds, state.placed, state.totals, state.floors
        for section in range(first, last):
            total = totals[section]
            if not total:
                continue
            live = [
                (bounds[number], sizes[number])
                for number in self.sections.members[section]
                if not placed[number]
            ]
            live.sort()
            floor = live[0][0]
            floors[section] = floor
            if floor + total > capacity:
                return False
            if live[-1][0] + total > capacity:
                top = 0
                for bound, size in live:
                    top = (bound if bound > top else top) + size
                if top > capacity:
                    return False
        return True
