"""Layer by layer or in cascades: both ways are emitted and timed, and the better one is kept.

The choice among cascades goes by estimates. Whether one is worth it is settled by its groups' own
instructions as the device runs them, layer by layer and in stripes; then the choice is made again
without those that weren't.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from stages.compiler.cascade.choice import Interval, Options, choose, rank
from stages.compiler.cascade.grounds import Stand, grounds_of
from stages.compiler.cascade.replay import replayed
from stages.compiler.cascade.stripes import striped
from stages.compiler.cascade.weighing import Outcome, note
from stages.compiler.cascading import Cascading
from stages.compiler.draft import Draft
from stages.compiler.emit.plan import PlanEmitter
from stages.compiler.memory.assign import Assignment, Memory
from stages.errors import DoesNotFitError
from stages.hardware.cost import nanoseconds_to_cycles
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import DDR, Opcode, Plan
from stages.plan.packing import Packing
from stages.plan.timing import plan_cycles

_TRIES = 12
"""Times that cascades are chosen, at most: each time with closer prices, or without those that
didn't gain."""
_CLEAR = 0.9
"""Of the price layer by layer: prices were never so far off the timed instructions."""
Solved = tuple[Draft, Memory]


@dataclass(frozen=True, slots=True)
class Planned:
    """A draft with its memory decisions, its plan, and what the constants of that are made of."""

    draft: Draft
    memory: Memory
    plan: Plan
    packings: tuple[Packing, ...]


def plan_layers(draft: Draft, spec: HardwareSpec, cascading: Cascading) -> Planned:
    """The plan of a draft whose groups are final.

    Raises:
        DoesNotFitError: no tile of a group fits the SRAM, or the DDR is too small.
    """
    assignment = Assignment(draft, spec)
    solved = assignment.run()
    if cascading is Cascading.ON:
        solved = Trial(assignment, solved).run()
    final, memory = solved
    plan, packings = PlanEmitter(final, memory, spec).emit()
    return Planned(final, memory, plan, packings)


@dataclass(slots=True)
class Trial:
    """Cascades being chosen and tried beside what was solved layer by layer. `outcomes` are those
    of all that were tried."""

    assignment: Assignment
    layers: Solved
    outcomes: dict[Interval, Outcome] = field(default_factory=dict)
    _found: Solved = field(init=False)

    def __post_init__(self) -> None:
        self._found = self.layers

    def run(self) -> Solved:
        """The best memory decisions that were found, with what was weighed."""
        stand = grounds_of(self.assignment, self.layers[1]).best()
        options = dict(stand.options)
        best, kept = self.layers, frozenset[Interval]()
        for _ in range(_TRIES):
            chosen = {item[0].interval: item for item in choose(stand.ground, options)}
            rough = [item for item, found in chosen.items() if not found[0].is_replayed]
            for interval in rough:
                exact = (replayed(item, stand.prices) for item in options[interval])
                options[interval] = tuple(sorted(exact, key=rank))
            if rough:
                continue
            losing = self._losing(chosen, stand)
            if losing is None:
                best, kept = self._found, frozenset(chosen)
                break
            for interval in losing:
                del options[interval]
        return self._explained(best, kept)

    def _losing(self, chosen: Mapping[Interval, Options], stand: Stand) -> list[Interval] | None:
        """Those of the chosen ones that don't gain or find no place; None where all is well."""
        tried = self._beside(chosen.values(), stand)
        if tried is None:
            return [max(chosen)]
        losing = []
        for interval, options in chosen.items():
            if interval not in self.outcomes:
                self.outcomes[interval] = self._outcome(options, tried)
            if not self.outcomes[interval].is_kept:
                losing.append(interval)
        self._found = tried
        return losing or None

    def _beside(self, chosen: Collection[Options], stand: Stand) -> Solved | None:
        """Memory with these cascades; None where their buffers find no place."""
        best = [options[0] for options in chosen]
        cascades = tuple(striped(item.chain, item.stripe, item.wanted) for item in best)
        if not cascades:
            return self.layers
        kept = frozenset(stand.kept)
        try:
            return self.assignment.beside(cascades, kept).run()
        except DoesNotFitError:
            return None

    def _outcome(self, options: Options, tried: Solved) -> Outcome:
        """Whether a cascade gains: by the prices where they leave no doubt, else as its groups'
        instructions run by themselves, in fewer cycles, or in as many and with fewer bytes."""
        best = options[0]
        cycles = self.layers[1].cycles
        alone = sum(cycles[number] for number in range(*best.interval))
        if best.cycles < alone * _CLEAR:
            return Outcome(options, (alone, 0), (best.cycles, best.ddr_bytes), True, "priced")
        spec = self.assignment.spec
        timed = [_timed(solved, best.interval, spec) for solved in (self.layers, tried)]
        return Outcome(options, timed[0], timed[1], timed[1] < timed[0], "timed by themselves")

    def _explained(self, found: Solved, kept: Collection[Interval]) -> Solved:
        """The same with what was weighed."""
        final = [
            replace(item, is_kept=interval in kept)
            for interval, item in sorted(self.outcomes.items())
        ]
        weighed = [answer for item in final for answer in item.weighed()]
        draft, memory = found
        return draft.with_weighed(weighed).with_notes(note(final)), memory


def _timed(solved: Solved, interval: Interval, spec: HardwareSpec) -> tuple[int, int]:
    """Cycles of some groups by themselves, without submission, and bytes that they move to and from
    the DDR."""
    plan = PlanEmitter(*solved, spec).segment(*interval)
    moved = sum(
        region.size_bytes
        for instruction in plan.instructions
        if instruction.opcode is Opcode.DMA_COPY
        for region in (*instruction.reads, *instruction.writes)
        if region.memory == DDR
    )
    return plan_cycles(plan, spec) - nanoseconds_to_cycles(spec, spec.driver.submit_ns), moved
