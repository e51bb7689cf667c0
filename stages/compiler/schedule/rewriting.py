"""A program with some transfers left out, and other instructions in others' stead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stages.compiler.emit.program import Written
from stages.compiler.schedule.dependencies import BufferUse, Dependencies


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What is left of a program: its instructions, all their dependencies, their numbers in the
    program that it was made from, and an order of them."""

    written: list[Written]
    found: Dependencies
    kept: list[int]
    order: list[int]


@dataclass(slots=True)
class Changes:
    """What to change of a program.

    `waits`: the transfers that are left out, each with the instructions to wait for instead of it.
    `items`: instructions that change, each with the buffers that it touches. `added`: buffers
    that come in addition, numbered from the last one on.
    """

    waits: dict[int, Sequence[int]] = field(default_factory=dict)
    items: dict[int, tuple[Written, list[int]]] = field(default_factory=dict)
    added: list[BufferUse] = field(default_factory=list)


def rewritten(
    written: Sequence[Written], found: Dependencies, order: Sequence[int], changes: Changes
) -> Forwarded:
    """The program with its changes; `found` holds every dependency (`Reach.ALL`)."""
    waits = changes.waits
    kept = [number for number in range(len(order)) if number not in waits]
    numbers = {number: at for at, number in enumerate(kept)}
    items: list[Written] = []
    predecessors, buffers_of = [], []
    for number in kept:
        item, touched = changes.items.get(number, (written[number], found.buffers_of[number]))
        items.append(item)
        buffers_of.append(touched)
        after: dict[int, None] = {}
        for other in found.predecessors[number]:
            for needed in waits.get(other, (other,)):
                after[numbers[needed]] = None
        predecessors.append(list(after))
    used = sorted({buffer for touched in buffers_of for buffer in touched} - {-1})
    renamed = {-1: -1} | {buffer: at for at, buffer in enumerate(used)}
    buffers_of = [[renamed[buffer] for buffer in touched] for touched in buffers_of]
    uses = [*found.buffers, *changes.added]
    buffers = _buffers([uses[buffer] for buffer in used], items, buffers_of)
    lanes = [found.lanes[number] for number in kept]
    left = [numbers[number] for number in order if number not in waits]
    return Forwarded(items, Dependencies(lanes, predecessors, buffers_of, buffers), kept, left)


def _buffers(
    uses: Sequence[BufferUse], items: Sequence[Written], buffers_of: Sequence[Sequence[int]]
) -> list[BufferUse]:
    """Buffers as these instructions touch them."""
    touching: list[list[int]] = [[] for _ in uses]
    writing: list[list[int]] = [[] for _ in uses]
    for number, (item, touched) in enumerate(zip(items, buffers_of, strict=True)):
        for buffer in {*touched} - {-1}:
            touching[buffer].append(number)
        for buffer in {*touched[len(item.reads) :]} - {-1}:
            writing[buffer].append(number)
    return [
        replace(use, first=touches[0], last=touches[-1], touches=len(touches), writers=writers)
        for use, touches, writers in zip(uses, touching, writing, strict=True)
    ]
