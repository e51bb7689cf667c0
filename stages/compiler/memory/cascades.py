"""Places for cascades: the slots of every group and the buffers between them, alive together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from stages.compiler.cascade.stripes import Striped
from stages.compiler.memory.lifetimes import Storage
from stages.compiler.memory.offsets import Arena, Request, largest_first
from stages.compiler.memory.slots import Needed, PlacedCascade, SlotNeeds
from stages.compiler.support import placement_alignment
from stages.compiler.tiling.search import exact_slots
from stages.compiler.tiling.streams import Stream, align, box_bytes, dependencies, streams
from stages.compiler.tiling.workload import Boxes
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
    buffered = striped.capacities.keys()
    pieces = {piece for piece, part in chain.pieces.items() if part.inputs[0] in buffered}
    inside = whole | buffered | pieces
    needs = [_needs(striped, place, inside, alignment) for place in range(len(chain.works))]
    span = chain.start, chain.stop
    rows = {
        value: f"{chain.works[0].stem}/rows.{number}"
        for number, value in enumerate(striped.capacities)
    }
    requests = [
        Request(name, align(_buffer_bytes(striped, value), alignment), *span)
        for value, name in rows.items()
    ]
    for item in needs:
        requests += item.requests(*span, from_top=False)
    placed = arena.place_all(largest_first(requests))
    if placed is None:
        return None
    by_name = {item.request.name: item for item in placed}
    return PlacedCascade(
        striped,
        {item.group: item.slots(by_name) for item in needs},
        {value: by_name[name] for value, name in rows.items()},
    )


def _needs(striped: Striped, place: int, inside: frozenset[str], alignment: int) -> SlotNeeds:
    """The slots of one group of a cascade, which reads and writes in place what is `inside`."""
    work = striped.chain.works[place]
    moved = streams(work, dependencies(work), inside)
    boxes = [striped.boxes(part) for part in striped.parts if part.place == place]
    sizes, result_bytes = exact_slots(work, boxes, moved, alignment)
    loaded = tuple(
        (stream, Needed(sizes[stream], min(2, _distinct_loads(stream, boxes)))) for stream in moved
    )
    result = Needed() if work.result in inside else Needed(result_bytes, min(2, len(boxes)))
    return SlotNeeds(work.group.name, work.stem, loaded, result)


def _distinct_loads(stream: Stream, boxes: Sequence[Boxes]) -> int:
    """How often a stream is loaded over a row of boxes: for each that differs from the last."""
    keys = (tuple(item.get(value) for value in stream.values) for item in boxes)
    return sum(1 for _ in groupby(keys))


def _buffer_bytes(striped: Striped, value: str) -> int:
    """Bytes of the buffer of a value."""
    return box_bytes(*striped.chain.form(value), striped.buffer_box(value))


def cascade_tile(striped: Striped, place: int) -> Tile:
    """The tile of a group of a cascade: the largest part that it makes in a round."""
    work = striped.chain.works[place]
    spans = [part.span for part in striped.parts if part.place == place]
    longest = max(stop - start for start, stop in spans)
    extents = box_shape(striped.chain.box(place, 0, longest))
    return Tile(extents, work.reduction_extent, tuple(range(len(extents))))
