"""Layer by layer or in cascades: both ways are emitted and timed, and the better one is kept.

The choice among cascades goes by estimates. Whether one is worth it is settled by its groups' own
instructions as the device runs them, layer by layer and in stripes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from stages.compiler.cascade.chains import site_of
from stages.compiler.cascade.choice import Ground, Options, choose
from stages.compiler.cascade.prices import Estimate
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
    layers = assignment.run()
    if cascading is Cascading.OFF:
        return _planned(layers, spec)
    chosen: Sequence[Options] = choose(_ground(layers, spec), spec)
    outcomes: list[Outcome] = []
    found = layers
    while chosen:
        tried = _beside(assignment, layers, chosen)
        if tried is None:
            chosen = chosen[:-1]
            continue
        if not outcomes:
            outcomes = [_outcome(options, layers, tried, spec) for options in chosen]
            kept = [item.options for item in outcomes if item.is_kept]
            if len(kept) < len(chosen):
                chosen = kept
                continue
        found = tried
        break
    return _planned(_explained(found, outcomes, chosen), spec)


_Solved = tuple[Draft, Memory]


def _explained(found: _Solved, outcomes: Sequence[Outcome], kept: Sequence[Options]) -> _Solved:
    """The same with what was weighed."""
    starts = {options[0].chain.start for options in kept}
    final = [replace(item, is_kept=item.options[0].chain.start in starts) for item in outcomes]
    weighed = [answer for item in final for answer in item.weighed()]
    draft, memory = found
    return draft.with_weighed(weighed).with_notes(note(final)), memory


def _ground(layers: _Solved, spec: HardwareSpec) -> Ground:
    draft, memory = layers
    groups = draft.recipe.groups
    works = {
        number: memory.works[group.name]
        for number, group in enumerate(groups)
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


def _beside(assignment: Assignment, layers: _Solved, chosen: Sequence[Options]) -> _Solved | None:
    """Memory with these cascades; None where their buffers find no place."""
    best = [options[0] for options in chosen]
    cascades = tuple(striped(item.chain, item.stripe, item.wanted) for item in best)
    kept = frozenset(layers[1].resident)
    try:
        return assignment.beside(cascades, kept).run()
    except DoesNotFitError:
        return None


def _planned(solved: _Solved, spec: HardwareSpec) -> Planned:
    draft, memory = solved
    plan, packings = PlanEmitter(draft, memory, spec).emit()
    return Planned(draft, memory, plan, packings)


def _outcome(options: Options, layers: _Solved, tried: _Solved, spec: HardwareSpec) -> Outcome:
    """How the groups of a cascade do by themselves, layer by layer and in stripes: it is kept where
    it takes fewer cycles, or as many and fewer bytes."""
    alone, together = (_timed(item, options[0], spec) for item in (layers, tried))
    return Outcome(options, alone, together, together < alone)


def _timed(solved: _Solved, item: Estimate, spec: HardwareSpec) -> tuple[int, int]:
    """Cycles of a chain's groups, without submission, and bytes that they move to and from DDR."""
    plan = PlanEmitter(*solved, spec).segment(item.chain.start, item.chain.stop)
    moved = sum(
        region.size_bytes
        for instruction in plan.instructions
        if instruction.opcode is Opcode.DMA_COPY
        for region in (*instruction.reads, *instruction.writes)
        if region.memory == DDR
    )
    return plan_cycles(plan, spec) - nanoseconds_to_cycles(spec, spec.driver.submit_ns), moved
