"""Places for the slots of one group's tiles."""

from __future__ import annotations

from dataclasses import replace

from stages.compiler.memory.offsets import Arena, largest_first
from stages.compiler.memory.slots import Needed, SlotNeeds, Slots
from stages.compiler.support import placement_alignment
from stages.compiler.tiling.search import (
    accumulator_bytes,
    exact_slots,
    stream_slots,
    tile_result_slots,
)
from stages.compiler.tiling.streams import dependencies, steps, streams
from stages.compiler.tiling.workload import Workload
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Tile


def place_slots(needs: SlotNeeds, arena: Arena, number: int) -> Slots | None:
    """Places the slots of a group's tiles. Neighbouring groups fill the SRAM from opposite ends,
    so that the loads of one need not wait for the last tiles of the other."""
    requests = needs.requests(number, number + 1, from_top=number % 2 == 1)
    placed = arena.place_all(largest_first(requests))
    if placed is None:
        return None
    return needs.slots({item.request.name: item for item in placed})


def slot_needs(
    work: Workload, tile: Tile, resident: frozenset[str], spec: HardwareSpec
) -> SlotNeeds:
    """The slots that a group's tiles need."""
    alignment = placement_alignment(spec.sram)
    moved = streams(work, dependencies(work), resident)
    boxes = (work.boxes(step.box, step.reduction) for step in steps(work, tile))
    sizes, result_bytes = exact_slots(work, boxes, moved, alignment)
    loaded = tuple(
        (stream, Needed(sizes[stream], stream_slots(work, tile, stream, spec))) for stream in moved
    )
    result = accumulator = Needed()
    if work.result not in resident:
        result = Needed(result_bytes, tile_result_slots(work, tile))
    if tile.reduction and tile.reduction < work.reduction_extent:
        accumulator = Needed(accumulator_bytes(work, tile.extents), 1)
    return SlotNeeds(work.group.name, work.stem, loaded, result, accumulator)


def renamed_needs(needs: SlotNeeds, work: Workload) -> SlotNeeds:
    """What the first group that is like a group needs, as that group's own."""
    names = work.own_names
    streams = tuple(
        (replace(stream, values=tuple(names[value] for value in stream.values)), needed)
        for stream, needed in needs.streams
    )
    return replace(needs, group=work.group.name, stem=work.stem, streams=streams)
