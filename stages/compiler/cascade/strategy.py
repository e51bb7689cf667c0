"""Layer by layer or in cascades: both ways are emitted and timed, and the better one is kept.

The choice among cascades goes by estimates. Whether one is worth it is settled by its groups' own
instructions as the device runs them, layer by layer and in stripes; then the choice is made again
without those that weren't.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from stages.compiler.cascade.chains import site_of
from stages.compiler.cascade.choice import Ground, Interval, Options, best_intervals, choose
from stages.compiler.cascade.stripes import striped
from stages.compiler.cascade.weighing import Outcome, note
from stages.compiler.cascading import Cascading
from stages.compiler.draft import Draft
from stages.compiler.emit.plan import PlanEmitter
from stages.compiler.memory.assign import Assignment, Memory
from stages.compiler.tiling.workload import Workload
from stages.errors import DoesNotFitError
from stages.hardware.cost import nanoseconds_to_cycles
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import DDR, Opcode, Plan
from stages.plan.packing import Packing
from stages.plan.timing import plan_cycles

_TRIES = 4
"""Times that cascades are chosen, at most: each time without those that didn't gain."""
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

    def run(self) -> Solved:
        """The best memory decisions that were found, with what was weighed."""
        ground = _ground(self.layers, self.assignment.spec)
        options = best_intervals(ground, self.assignment.spec)
        best, kept = self.layers, frozenset[Interval]()
        for _ in range(_TRIES):
            chosen = {item[0].interval: item for item in choose(ground, options)}
            if not chosen:
                break
            tried = self._beside(chosen.values())
            if tried is None:
                del options[max(chosen)]
                continue
            self._judge(chosen, tried)
            losing = [item for item in chosen if not self.outcomes[item].is_kept]
            if not losing:
                best, kept = tried, frozenset(chosen)
                break
            for interval in losing:
                del options[interval]
        else:
            best, kept = self._gaining()
        return self._explained(best, kept)

    def _beside(self, chosen: Collection[Options]) -> Solved | None:
        """Memory with these cascades; None where their buffers find no place."""
        best = [options[0] for options in chosen]
        cascades = tuple(striped(item.chain, item.stripe, item.wanted) for item in best)
        kept = frozenset(self.layers[1].resident)
        try:
            return self.assignment.beside(cascades, kept).run()
        except DoesNotFitError:
            return None

    def _judge(self, chosen: Mapping[Interval, Options], tried: Solved) -> None:
        """Time what hasn't been timed yet: a cascade is kept where its groups take fewer cycles by
        themselves than layer by layer, or as many and fewer bytes."""
        spec = self.assignment.spec
        for interval, options in chosen.items():
            if interval not in self.outcomes:
                alone, together = (_timed(item, interval, spec) for item in (self.layers, tried))
                self.outcomes[interval] = Outcome(options, alone, together, together < alone)

    def _gaining(self) -> tuple[Solved, frozenset[Interval]]:
        """Where no choice gained as a whole: what gained of all that was tried, where it meets
        nothing better."""
        found: dict[Interval, Options] = {}
        for (start, stop), item in sorted(
            self.outcomes.items(), key=lambda entry: entry[1].stripes[0] - entry[1].layers[0]
        ):
            if item.is_kept and not any(start < end and begin < stop for begin, end in found):
                found[start, stop] = item.options
        tried = self._beside([found[interval] for interval in sorted(found)]) if found else None
        return (self.layers, frozenset()) if tried is None else (tried, frozenset(found))

    def _explained(self, found: Solved, kept: Collection[Interval]) -> Solved:
        """The same with what was weighed."""
        final = [
            replace(item, is_kept=interval in kept)
            for interval, item in sorted(self.outcomes.items())
        ]
        weighed = [answer for item in final for answer in item.weighed()]
        draft, memory = found
        return draft.with_weighed(weighed).with_notes(note(final)), memory


def _ground(layers: Solved, spec: HardwareSpec) -> Ground:
    draft, memory = layers
    works = {
        number: memory.works[group.name]
        for number, group in enumerate(draft.recipe.groups)
        if group.name in memory.works
    }
    whole = {
        value: memory.resident[root]
        for value, root in memory.roots.items()
        if root in memory.resident
    }
    resident = {
        value: (item.start, item.stop, item.size_bytes if value == item.root else 0)
        for value, item in whole.items()
    }
    costs = {
        number: (cycles, _least_bytes(works[number], resident.keys()))
        for number, cycles in memory.cycles.items()
    }
    capacity = spec.sram.size_bytes - spec.sram.reserved_bytes
    return Ground(site_of(draft, works), costs, resident, capacity)


def _least_bytes(work: Workload, resident: Collection[str]) -> int:
    """What a group moves at least: each operand and the result once, where they aren't resident."""
    values = {*work.operands, work.result}
    return sum(work.types[value].size_bytes for value in values if value not in resident)


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
