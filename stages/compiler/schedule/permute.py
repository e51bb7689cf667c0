"""A program in another order of its instructions: their launches, its dependencies, its clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stages.compiler.emit.program import Written
from stages.compiler.schedule.clock import Clock, launches_of
from stages.compiler.schedule.dependencies import BufferUse, Dependencies, Lane
from stages.plan.prices import Price


def permuted(found: Dependencies, order: Sequence[int]) -> Dependencies:
    """All dependencies of a program (`Reach.ALL`), of which those are left that are needed while
    the lanes keep the order given: numbers are places in that order."""
    place = [0] * len(order)
    for at, number in enumerate(order):
        place[number] = at
    buffers_of = [found.buffers_of[number] for number in order]
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for at, touched in enumerate(buffers_of):
        for buffer in touched:
            first.setdefault(buffer, at)
            last[buffer] = at
    buffers = [
        BufferUse(
            use.place,
            use.is_slot,
            first[number],
            last[number],
            use.size_bytes,
            use.touches,
            sorted([place[writer] for writer in use.writers]),
        )
        for number, use in enumerate(found.buffers)
    ]
    return Dependencies(
        [found.lanes[number] for number in order],
        [_needed(found, number, place) for number in order],
        buffers_of,
        buffers,
    )


def _needed(found: Dependencies, number: int, place: Sequence[int]) -> list[int]:
    """Of an instruction's predecessors the last one of each lane that keeps its order, and all of
    the others."""
    kept: list[int] = []
    last: dict[Lane, int] = {}
    for other in found.predecessors[number]:
        lane = found.lanes[other]
        if lane is Lane.LOAD:
            kept.append(place[other])
        else:
            last[lane] = max(last.get(lane, -1), place[other])
    return [*kept, *last.values()]


def relaunched(written: Sequence[Written], order: Sequence[int]) -> list[Written]:
    """The program in this order. The driver's launch of a group falls on the first of its
    instructions that computes, whichever that is now."""
    begun: set[str] = set()
    found = []
    for number in order:
        item = written[number]
        instruction = item.instruction
        if instruction.kernel >= 0:
            launch = instruction.group not in begun
            begun.add(instruction.group)
            if launch != instruction.launch:
                item = replace(item, instruction=replace(instruction, launch=launch))
        found.append(item)
    return found


def without(clock: Clock, kept: Sequence[int], prices: Sequence[Price]) -> Clock:
    """A clock at time 0 for those of the instructions that are kept, with prices of their own."""
    return Clock(
        clock.spec,
        clock.queues,
        [clock.queue_of[number] for number in kept],
        [clock.is_transfer[number] for number in kept],
        prices,
        [clock.launches[number] for number in kept],
    )


def reordered(clock: Clock, order: Sequence[int], program: Sequence[Written]) -> Clock:
    """A clock at time 0 for the instructions of `program`, which are those of another one in this
    order."""
    instructions = [item.instruction for item in program]
    return Clock(
        clock.spec,
        clock.queues,
        [clock.queue_of[number] for number in order],
        [clock.is_transfer[number] for number in order],
        [clock.prices[number] for number in order],
        launches_of(instructions, clock.queues, clock.spec),
    )
