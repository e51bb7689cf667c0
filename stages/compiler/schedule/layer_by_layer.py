"""Dependencies under which a layer waits for the end of the one before it."""

from __future__ import annotations

from collections.abc import Sequence

from stages.compiler.emit.program import Written
from stages.compiler.schedule.dependencies import Dependencies, Lane


def layer_by_layer(found: Dependencies, written: Sequence[Written]) -> Dependencies:
    """The same dependencies, and besides, every instruction waits for the whole group before its
    own: nothing of a layer runs ahead, and no two change places.

    A queue runs in order, and a lane that isn't of loads keeps its order; so the end of a group is
    that of the last instruction of each such lane on each queue, and of the loads that none of
    them waits for.
    """
    predecessors: list[list[int]] = []
    before: list[int] = []
    members: list[int] = []
    for number, items in enumerate(found.predecessors):
        if members and _group(written, number) != _group(written, members[0]):
            before, members = _ends(found, written, members), []
        members.append(number)
        predecessors.append([*dict.fromkeys((*items, *before))])
    return Dependencies(found.lanes, predecessors, found.buffers_of, found.buffers)


def _group(written: Sequence[Written], number: int) -> str:
    return written[number].instruction.group


def _ends(found: Dependencies, written: Sequence[Written], members: Sequence[int]) -> list[int]:
    """What has to end for a group to have ended."""
    last: dict[tuple[Lane, str], int] = {}
    loads, awaited = [], set()
    for number in members:
        lane = found.lanes[number]
        if lane is Lane.LOAD:
            loads.append(number)
        else:
            last[lane, written[number].instruction.queue] = number
            awaited.update(found.predecessors[number])
    return sorted((*last.values(), *(number for number in loads if number not in awaited)))
