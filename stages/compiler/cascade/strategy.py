"""Layer by layer or in cascades: both plans are made and timed, and the better one is kept.

The choice among cascades goes by estimates; whether they are worth it is settled by the whole plan
as the device runs it. A cascade whose groups then end later than they do layer by layer is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from stages.errors import DoesNotFitError
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import DDR, Opcode, Plan
from stages.plan.packing import Packing
from stages.plan.timing import simulate

_TRIES = 3
"""Plans with cascades that are made, at most: what does badly in one is left out of the next."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A draft with its memory decisions, its plan, what the constants of that are made of, and how
    the plan does: cycles in all, cycles at which each group has ended, and bytes to and from the
    DDR by group."""

    draft: Draft
    memory: Memory
    plan: Plan
    packings: tuple[Packing, ...]
    cycles: int
    ends: Mapping[str, int]
    ddr_bytes: Mapping[str, int]

    @property
    def rank(self) -> tuple[int, int]:
        """Smaller is better: faster, or as fast with fewer bytes moved."""
        return self.cycles, sum(self.ddr_bytes.values())


def plan_layers(draft: Draft, spec: HardwareSpec, cascading: Cascading) -> Planned:
    """The plan of a draft whose groups are final.

    Raises:
        DoesNotFitError: no tile of a group fits the SRAM, or the DDR is too small.
    """
    assignment = Assignment(draft, spec)
    layers = _planned(assignment, spec)
    if cascading is Cascading.OFF:
        return layers
    chosen: Sequence[Options] = choose(_ground(draft, layers, spec), spec)
    best = layers
    kept: Sequence[Options] = ()
    outcomes: dict[int, Outcome] = {}
    for _ in range(_TRIES):
        tried = _cascaded(assignment, layers, chosen) if chosen else None
        if tried is None:
            break
        if tried.rank < best.rank:
            best, kept = tried, tuple(chosen)
        found = [_outcome(options, layers, tried) for options in chosen]
        outcomes |= {item.options[0].chain.start: item for item in found}
        gaining = [item.options for item in found if item.is_kept]
        if len(gaining) == len(chosen):
            break
        chosen = gaining
    return _explained(best, layers, kept, outcomes)


def _explained(
    best: Planned, layers: Planned, kept: Sequence[Options], outcomes: Mapping[int, Outcome]
) -> Planned:
    """The plan that was kept, with what was weighed."""
    starts = {options[0].chain.start for options in kept}
    weighed = [
        answer
        for start, item in sorted(outcomes.items())
        for answer in replace(item, is_kept=start in starts).weighed()
    ]
    said = note([options[0] for options in kept], layers.rank, best.rank)
    return replace(best, draft=best.draft.with_weighed(weighed).with_notes(said))


def _ground(draft: Draft, layers: Planned, spec: HardwareSpec) -> Ground:
    memory = layers.memory
    groups = draft.recipe.groups
    works = {
        number: memory.works[group.name]
        for number, group in enumerate(groups)
        if group.name in memory.works
    }
    costs = {
        number: (cycles, layers.ddr_bytes.get(groups[number].name, 0))
        for number, cycles in memory.cycles.items()
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
    capacity = spec.sram.size_bytes - spec.sram.reserved_bytes
    return Ground(site_of(draft, works), costs, resident, capacity)


def _cascaded(assignment: Assignment, layers: Planned, chosen: Sequence[Options]) -> Planned | None:
    """The plan with these cascades; None where their buffers find no place."""
    best = [options[0] for options in chosen]
    cascades = tuple(striped(item.chain, item.stripe, item.wanted) for item in best)
    kept = frozenset(layers.memory.resident)
    try:
        return _planned(assignment.beside(cascades, kept), assignment.spec)
    except DoesNotFitError:
        return None


def _planned(assignment: Assignment, spec: HardwareSpec) -> Planned:
    draft, memory = assignment.run()
    plan, packings = PlanEmitter(draft, memory, spec).emit()
    timing = simulate(plan, spec)
    ends: dict[str, int] = {}
    moved: dict[str, int] = {}
    for instruction, end in zip(plan.instructions, timing.ends.tolist(), strict=True):
        if instruction.opcode is Opcode.DMA_COPY:
            regions = (*instruction.reads, *instruction.writes)
            size = sum(region.size_bytes for region in regions if region.memory == DDR)
            moved[instruction.group] = moved.get(instruction.group, 0) + size
        ends[instruction.group] = max(ends.get(instruction.group, 0), end)
    return Planned(draft, memory, plan, packings, int(timing.total_cycles[0]), ends, moved)


def _outcome(options: Options, layers: Planned, tried: Planned) -> Outcome:
    """How a cascade does in the whole plan; it is kept where its groups take fewer cycles than by
    themselves, or as many and fewer bytes."""
    alone, together = _span(options[0], layers), _span(options[0], tried)
    return Outcome(options, alone, together, together < alone)


def _span(item: Estimate, planned: Planned) -> tuple[int, int]:
    names = [group.name for group in planned.draft.recipe.groups]
    inside = names[item.chain.start : item.chain.stop]
    before = max((planned.ends.get(name, 0) for name in names[: item.chain.start]), default=0)
    after = max(planned.ends.get(name, 0) for name in inside)
    return after - before, sum(planned.ddr_bytes.get(name, 0) for name in inside)
