"""The plan of a draft whose groups are final: the best of the ways in which it can be made.

Values that stay in the SRAM save transfers, but each holds its bytes from the group that makes it
to the last that reads it, and so keeps groups apart. Where the tensor core and the vector unit take
turns, it can be faster to let values pass through the DDR tile by tile and to weave the groups
together. Both are emitted, and the device's own timing says which is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stages.compiler.cascade.strategy import Trial
from stages.compiler.draft import Draft
from stages.compiler.emit.plan import PlanEmitter
from stages.compiler.interleaving import Interleaving
from stages.compiler.memory.assign import Assignment, Memory
from stages.compiler.schedule.attempts import ATTEMPTS, Attempt
from stages.compiler.schedule.reorder import Order
from stages.errors import DoesNotFitError
from stages.hardware.spec import HardwareSpec, SyncMode
from stages.plan.costs import Role, instruction_costs, submission_cycles
from stages.plan.instructions import Plan
from stages.plan.packing import Packing
from stages.plan.timing import plan_cycles
from stages.recipe.explanation import Alternative, Weighed

_SHARE = 8
"""One part in so many of a plan's time: with less than that to gain nothing is woven."""
_BY_GROUPS, _WOVEN = "group by group", "woven"


@dataclass(frozen=True, slots=True)
class Planned:
    """A draft with its memory decisions, its plan, what the constants of that are made of, and its
    jitter-free cycles."""

    draft: Draft
    memory: Memory
    plan: Plan
    packings: tuple[Packing, ...]
    cycles: int


def plan_layers(draft: Draft, spec: HardwareSpec, interleaving: Interleaving) -> Planned:
    """The plan of a draft whose groups are final.

    Raises:
        DoesNotFitError: no tile of a group fits the SRAM, or the DDR is too small.
    """
    assignment = Assignment(draft, spec)
    solved = assignment.run()
    if interleaving is Interleaving.CASCADES:
        solved = Trial(assignment, solved).run()
    order = Order.LAYERS if interleaving is Interleaving.NOTHING else Order.GROUPS
    planned = emitted(*solved, spec, order)
    if interleaving is not Interleaving.CASCADES or not engines_take_turns(planned, spec):
        return planned
    return better(planned, assignment, spec)


def engines_take_turns(planned: Planned, spec: HardwareSpec) -> bool:
    """Whether a plan could be much faster if its tensor core and its vector unit worked at the same
    time, and nothing else bounds it."""
    if spec.driver.sync_mode is SyncMode.STRICT:
        return False
    plan = planned.plan
    costs = instruction_costs(plan, spec)
    busy = dict.fromkeys(plan.queues, 0)
    port = 0
    columns = zip(costs.roles, costs.queues, costs.cycles, costs.port, strict=True)
    for role, queue, cycles, moved in columns:
        if role is not Role.SIGNAL and role is not Role.WAIT:
            busy[plan.queues[queue]] += cycles
            port += moved
    host = busy.pop("host", 0)
    taken = planned.cycles - submission_cycles(plan, spec) - host
    idle = taken - max(*busy.values(), port)
    gain = min(idle, busy["tensor_core"], busy["vector"])
    return gain * _SHARE > taken


def better(planned: Planned, assignment: Assignment, spec: HardwareSpec) -> Planned:
    """The plan as it is, or woven where that is faster."""
    from stages.compiler.woven_tiles import tried_in_place  # most plans aren't woven

    try:
        streamed = assignment.streaming()
        solved = tried_in_place(streamed.run(), streamed, spec)
        woven = emitted(solved.draft, solved.memory, spec, Order.WOVEN, solved.attempts)
    except DoesNotFitError:
        return planned
    chosen = _WOVEN if woven.cycles < planned.cycles else _BY_GROUPS
    weighed = Weighed(
        "",
        "order",
        (
            Alternative(_BY_GROUPS, planned.cycles, "values may stay in the SRAM"),
            Alternative(_WOVEN, woven.cycles, "values pass through the DDR"),
        ),
        chosen,
        "both plans were made and timed",
    )
    best = woven if chosen == _WOVEN else planned
    return replace(best, draft=best.draft.with_weighed([weighed]))


def emitted(
    draft: Draft,
    memory: Memory,
    spec: HardwareSpec,
    order: Order,
    attempts: Sequence[Attempt] = ATTEMPTS,
) -> Planned:
    """The plan of a draft with its memory."""
    plan, packings = PlanEmitter(draft, memory, spec, order, attempts).emit()
    return Planned(draft, memory, plan, packings, plan_cycles(plan, spec))
