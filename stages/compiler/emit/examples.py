"""Groups written by the example of an earlier one that is like them: layers repeat.

The instructions are the same but for names, and for the places that they touch. So the tiles of
each kind of group are worked out once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stages.compiler.emit.kernels import KernelTable, TileKernels
from stages.compiler.emit.program import Access, Place, Written
from stages.compiler.emit.tiles import OF_TILE
from stages.compiler.memory.slots import Slots
from stages.compiler.tiling.streams import Step
from stages.compiler.tiling.workload import Workload
from stages.plan.instructions import NO_KERNEL, Instruction, Region
from stages.plan.packing import Packed, Part
from stages.recipe.decisions import Tile

_Moves = Mapping[str, tuple[Place, int]]
"""For each place of the example its counterpart, and how far its bytes move."""


@dataclass(frozen=True, slots=True)
class Example:
    """A tiled group as it was written: every place that it touches, in an order that groups like
    it share; what its constants are packed to; and for each of its kernels a step that runs it."""

    work: Workload
    places: Sequence[Place]
    written: Sequence[Written]
    packings: Sequence[Packed]
    steps: Mapping[int, Step]


def form_of(
    work: Workload, tile: Tile, slots: Slots, accesses: Mapping[str, Access]
) -> tuple[object, ...]:
    """Equal for groups of which each can be written by the example of the other. `accesses` are
    those to the values that lie where memory planning put them.

    Holds as long as the workload lives: groups that are alike share their first one.
    """
    numbers = {name: number for number, name in enumerate(work.names)}
    streams = tuple(
        (tuple(numbers[value] for value in stream.values), stream.is_constant, len(placed))
        for stream, placed in slots.streams
    )
    kept = len(slots.results), slots.accumulator is None
    places = dict.fromkeys(access.place.name for access in accesses.values())
    order = {name: number for number, name in enumerate(places)}
    touched = tuple(
        (numbers[value], order[access.place.name], _form(access))
        for value, access in accesses.items()
    )
    return id(work.first), tile, streams, kept, touched


def _form(access: Access) -> tuple[object, ...]:
    """An access but for its address and its name."""
    place, region = access.place, access.region
    offset = region.address - place.address
    form = region.dtype, region.shape, region.layout, region.strides
    return place.memory, place.lifetime, place.is_slot, offset, *form


def packed_alike(packed: Packed, name: str, example: Workload, work: Workload) -> Packed:
    """The packing of a group's constants, by that of the example's."""
    names = _names(example, work)
    parts = [Part(names[part.value], part.box, part.offset_bytes) for part in packed.parts]
    return Packed(name, packed.size_bytes, tuple(parts))


def written_alike(
    example: Example, work: Workload, places: Sequence[Place], table: KernelTable
) -> list[Written]:
    """The instructions of a group that touches these places."""
    names = _names(example.work, work)
    pairs = zip(example.places, places, strict=True)
    moves = {old.name: (new, new.address - old.address) for old, new in pairs}
    kernels = _kernels(example, work, table)
    written = []
    for item in example.written:
        old = item.instruction
        instruction = Instruction(
            old.opcode,
            old.queue,
            work.group.name,
            _moved(old.reads, item.reads, moves),
            _moved(old.writes, item.writes, moves),
            kernels[old.kernel],
            old.contraction,
            launch=old.launch,
            comment=_renamed(old.comment, names),
        )
        reads = tuple([moves[place.name][0] for place in item.reads])
        writes = tuple([moves[place.name][0] for place in item.writes])
        written.append(Written(instruction, reads, writes))
    return written


def _names(example: Workload, work: Workload) -> dict[str, str]:
    return dict(zip(example.names, work.names, strict=True))


def _kernels(example: Example, work: Workload, table: KernelTable) -> dict[int, int]:
    """For each kernel of the example the group's own."""
    own = TileKernels(work, table)
    found = {NO_KERNEL: NO_KERNEL}
    for index, step in example.steps.items():
        _, found[index] = own.of(step, work.boxes(step.box, step.reduction))
    return found


def _moved(regions: Sequence[Region], places: Sequence[Place], moves: _Moves) -> tuple[Region, ...]:
    found = []
    for region, place in zip(regions, places, strict=True):
        _, shift = moves[place.name]
        found.append(region.moved(shift) if shift else region)
    return tuple(found)


def _renamed(comment: str, names: Mapping[str, str]) -> str:
    value, of_tile, number = comment.rpartition(OF_TILE)
    return f"{names[value]}{of_tile}{number}" if of_tile else comment
