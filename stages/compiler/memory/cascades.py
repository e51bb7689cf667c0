"""Places for cascades: the slots of every group and the buffers between them, alive together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stages.compiler.cascade.stripes import Striped
from stages.compiler.memory.lifetimes import Storage
from stages.compiler.memory.offsets import Arena, Placed, Request, largest_first
from stages.compiler.memory.slots import PlacedCascade, Slots
from stages.compiler.support import placement_alignment
from stages.compiler.tiling.streams import (
    Stream,
    align,
    box_bytes,
    dependencies,
    stream_bytes,
    streams,
)
from stages.compiler.tiling.workload import Boxes, Workload
from stages.errors import DoesNotFitError
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Tile
from stages.tensors import box_shape


class NoRoomError(DoesNotFitError):
    """A cascade that begins with group `start` finds no place beside the residents."""

    def __init__(self, start: int, name: str) -> None:
        self.start = start
        super().__init__(
            f"the buffers of the cascade from group {name} on find no place",
            where=f"group {start}",
            hint="compile without it, or raise `memory.sram.size` in the hardware spec",
        )


def widened(stores: Mapping[str, Storage], cascades: Sequence[Striped]) -> dict[str, Storage]:
    """The storages beside cascades. What a cascade holds needs none; what any of its groups
    touches lives as long as the whole cascade, whose groups run by turns."""
    held = {value for item in cascades for value in item.chain.held}
    spans = {
        number: (item.chain.start, item.chain.stop)
        for item in cascades
        for number in range(item.chain.start, item.chain.stop)
    }
    found = {}
    for root, item in stores.items():
        if root in held:
            continue
        start, _ = spans.get(item.start, (item.start, 0))
        _, stop = spans.get(item.stop - 1, (0, item.stop))
        found[root] = replace(item, start=start, stop=stop)
    return found


def place_cascade(
    striped: Striped, whole: frozenset[str], arena: Arena, spec: HardwareSpec
) -> PlacedCascade | None:
    """Places for a cascade's slots and buffers; None where the arena has no room. `whole`: values
    that lie whole in the SRAM."""
    chain, alignment = striped.chain, placement_alignment(spec.sram)
    wanted: list[tuple[str, Stream | None, Request]] = []

    def ask(owner: str, stream: Stream | None, name: str, size: int) -> None:
        request = Request(name, size, chain.start, chain.stop)
        wanted.append((owner, stream, request))

    for value in striped.capacities:
        ask("", None, f"{value}/rows", align(buffer_bytes(striped, value), alignment))
    inside = whole | striped.capacities.keys()
    moved = [streams(work, dependencies(work), inside) for work in chain.works]
    for place, work in enumerate(chain.works):
        boxes = [striped.boxes(part) for part in striped.parts if part.place == place]
        name = work.group.name
        for index, stream in enumerate(moved[place]):
            size = max(stream_bytes(work, stream, item, alignment) for item in boxes)
            for slot in range(min(2, distinct_loads(stream, boxes))):
                ask(name, stream, f"{name}/operand{index}.{slot}", size)
        if work.result not in inside:
            size = align(max(_result_bytes(work, item) for item in boxes), alignment)
            for slot in range(min(2, len(boxes))):
                ask(name, None, f"{name}/result.{slot}", size)
    placed = arena.place_all(largest_first([request for _, _, request in wanted]))
    if placed is None:
        return None
    by_name = {item.request.name: item for item in placed}
    found = [(owner, stream, by_name[request.name]) for owner, stream, request in wanted]
    slots = {
        work.group.name: _slots(work.group.name, moved[place], found)
        for place, work in enumerate(chain.works)
    }
    buffers = {value: by_name[f"{value}/rows"] for value in striped.capacities}
    return PlacedCascade(striped, slots, buffers)


def _slots(name: str, moved: list[Stream], found: list[tuple[str, Stream | None, Placed]]) -> Slots:
    mine = [(stream, item) for owner, stream, item in found if owner == name]
    return Slots(
        tuple((stream, tuple(item for other, item in mine if other is stream)) for stream in moved),
        tuple(item for stream, item in mine if stream is None),
        None,
    )


def distinct_loads(stream: Stream, boxes: Sequence[Boxes]) -> int:
    """How often a stream is loaded over a row of boxes: for each that differs from the last."""
    keys = [tuple(item.get(value) for value in stream.values) for item in boxes]
    return sum(1 for number, key in enumerate(keys) if number == 0 or key != keys[number - 1])


def buffer_bytes(striped: Striped, value: str) -> int:
    """Bytes of the buffer of a value."""
    chain = striped.chain
    place = next(at for at, work in enumerate(chain.works) if work.result == value)
    work = chain.works[place]
    box = chain.box(place, 0, striped.capacities[value])
    return box_bytes(work.result_type, work.layout(value), box)


def _result_bytes(work: Workload, boxes: Boxes) -> int:
    return box_bytes(work.result_type, work.layout(work.result), boxes[work.result])


def cascade_tile(striped: Striped, place: int) -> Tile:
    """The tile of a group of a cascade: the largest part that it makes in a round."""
    work = striped.chain.works[place]
    spans = [part.span for part in striped.parts if part.place == place]
    longest = max(stop - start for start, stop in spans)
    extents = box_shape(striped.chain.box(place, 0, longest))
    return Tile(extents, work.reduction_extent, tuple(range(len(extents))))
