"""A program in another order of its instructions: its dependencies and its clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stages.compiler.schedule.clock import Clock
from stages.compiler.schedule.dependencies import Dependencies, Lane


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
        replace(
            use,
            first=first[number],
            last=last[number],
            writers=sorted(place[writer] for writer in use.writers),
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


def reordered(clock: Clock, order: Sequence[int]) -> Clock:
    """A clock at time 0 for the same instructions in another order."""
    return Clock(
        clock.spec,
        clock.queues,
        [clock.queue_of[number] for number in order],
        [clock.is_transfer[number] for number in order],
        [clock.prices[number] for number in order],
        [clock.launches[number] for number in order],
    )
