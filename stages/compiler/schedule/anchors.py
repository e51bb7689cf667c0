"""Large slots of an ordered program, given addresses before it is scheduled.

The list schedule takes bytes for each buffer as they come free, and a small buffer that lies in the
middle of the memory can keep a large one out although as many bytes are free. Which slots live at
the same time is known from the order alone: the large ones are placed first, and whatever lives
beside one of them stays out of its bytes.
"""

from __future__ import annotations

from dataclasses import replace

from stages.compiler.memory.offsets import Arena, Request, largest_first
from stages.compiler.schedule.dependencies import Dependencies
from stages.compiler.support import placement_alignment
from stages.hardware.spec import HardwareSpec


def anchored(
    found: Dependencies, spec: HardwareSpec, least_bytes: int
) -> tuple[Dependencies, frozenset[int]] | None:
    """The same program with an address for each slot of `least_bytes` or more, and the numbers of
    those slots; None where they don't fit side by side."""
    sram = spec.sram
    alignment = placement_alignment(sram)
    large = [
        number
        for number in found.managed
        if found.buffers[number].is_slot
        and found.buffers[number].place.memory == sram.name
        and found.buffers[number].size_bytes >= least_bytes
    ]
    requests = [
        Request(str(number), use.taken_bytes(alignment), use.first, use.last + 1)
        for number in large
        for use in (found.buffers[number],)
    ]
    arena = Arena(sram.reserved_bytes, sram.size_bytes, alignment)
    placed = arena.place_all(largest_first(requests))
    if placed is None:
        return None
    buffers = list(found.buffers)
    for item in placed:
        use = buffers[int(item.request.name)]
        buffers[int(item.request.name)] = replace(
            use, place=replace(use.place, address=item.address)
        )
    return (
        Dependencies(found.lanes, found.predecessors, found.buffers_of, buffers),
        frozenset(large),
    )
