"""Places for the slots of one group's tiles."""

from __future__ import annotations

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


def place_slots(
    work: Workload,
    tile: Tile,
    resident: frozenset[str],
    arena: Arena,
    number: int,
    spec: HardwareSpec,
) -> Slots | None:
    """Places the slots of a group's tiles. Neighbouring groups fill the SRAM from opposite ends,
    so that the loads of one need not wait for the last tiles of the other."""
    needs = _needs(work, tile, resident, placement_alignment(spec.sram))
    requests = needs.requests(number, number + 1, from_top=number % 2 == 1)
    placed = arena.place_all(largest_first(requests))
    if placed is None:
        return None
    return needs.slots({item.request.name: item for item in placed})


def _needs(work: Workload, tile: Tile, resident: frozenset[str], alignment: int) -> SlotNeeds:
    moved = streams(work, dependencies(work), resident)
    boxes = (work.boxes(step.box, step.reduction) for step in steps(work, tile))
    sizes, result_bytes = exact_slots(work, boxes, moved, alignment)
    loaded = tuple(
        (stream, Needed(sizes[stream], stream_slots(work, tile, stream))) for stream in moved
    )
    result = accumulator = Needed()
    if work.result not in resident:
        result = Needed(result_bytes, tile_result_slots(work, tile))
    if tile.reduction and tile.reduction < work.reduction_extent:
        accumulator = Needed(accumulator_bytes(work, tile.extents), 1)
    return SlotNeeds(work.group.name, loaded, result, accumulator)
