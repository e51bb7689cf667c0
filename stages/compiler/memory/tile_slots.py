"""Places for the slots of one group's tiles."""

from __future__ import annotations

from stages.compiler.memory.offsets import Arena, Request, largest_first
from stages.compiler.memory.slots import Slots
from stages.compiler.support import placement_alignment
from stages.compiler.tiling.search import (
    accumulator_bytes,
    exact_slots,
    stream_slots,
    tile_result_slots,
)
from stages.compiler.tiling.streams import Stream, dependencies, streams
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
    moved = streams(work, dependencies(work), resident)
    sizes, result_bytes = exact_slots(work, tile, moved, placement_alignment(spec.sram))
    from_top = number % 2 == 1
    wanted: list[tuple[Stream | None, Request]] = []

    def ask(stream: Stream | None, label: str, size: int, count: int) -> None:
        for index in range(count):
            name = f"{work.group.name}/{label}.{index}"
            wanted.append((stream, Request(name, size, number, number + 1, from_top)))

    for index, stream in enumerate(moved):
        ask(stream, f"operand{index}", sizes[stream], stream_slots(work, tile, stream))
    if work.result not in resident:
        ask(None, "result", result_bytes, tile_result_slots(work, tile))
    if tile.reduction and tile.reduction < work.reduction_extent:
        ask(None, "accumulator", accumulator_bytes(work, tile.extents), 1)
    order = largest_first([request for _, request in wanted])
    placed = arena.place_all(order)
    if placed is None:
        return None
    by_name = {item.request.name: item for item in placed}
    found = [(stream, by_name[request.name]) for stream, request in wanted]
    results = tuple(item for _, item in found if "/result." in item.request.name)
    accumulators = [item for _, item in found if "/accumulator." in item.request.name]
    return Slots(
        tuple(
            (stream, tuple(item for owner, item in found if owner is stream)) for stream in moved
        ),
        results,
        accumulators[0] if accumulators else None,
    )
