"""Emission of a cascade: the parts of its groups by turns, stripe by stripe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from stages.compiler.cascade.stripes import Part
from stages.compiler.emit.packing import StreamPacking
from stages.compiler.emit.program import Access, Place, Program, Written
from stages.compiler.emit.regions import box_region, whole_region
from stages.compiler.emit.tiles import Feed, TileEmitter, slot_place
from stages.compiler.emit.views import view_region
from stages.compiler.memory.slots import PlacedCascade
from stages.compiler.tiling.streams import Step, Stream
from stages.plan.instructions import SRAM
from stages.recipe.graph import Operator
from stages.tensors import TensorType, box_shape

PackedStreams = Mapping[Stream, tuple[StreamPacking, Place]]


@dataclass(slots=True)
class CascadeEmitter:
    """Writes one cascade. `values` finds the access to a whole value in memory; `packed` holds the
    packed constants of each group, by name."""

    cascade: PlacedCascade
    program: Program
    values: Callable[[str], Access]
    packed: Mapping[str, PackedStreams]
    bases: dict[str, int] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    emitters: list[TileEmitter] = field(init=False)

    def __post_init__(self) -> None:
        striped = self.cascade.striped
        self.emitters = [
            TileEmitter(
                work,
                self.cascade.slots[work.group.name],
                self.program,
                self._value,
                self.packed[work.group.name],
            )
            for work in striped.chain.works
        ]

    def emit(self) -> None:
        """Append the instructions. Loads are written one part ahead of the work, as they are within
        a group, but never ahead of the store that they read from."""
        striped = self.cascade.striped
        works = striped.chain.works
        feeds: list[list[Feed]] = [emitter.feeds() for emitter in self.emitters]
        numbers = [0] * len(works)
        pending: list[Written] = []
        for part in striped.parts:
            place, work = part.place, works[part.place]
            emitter, boxes = self.emitters[place], striped.boxes(part)
            if self._reads_back(place):
                self.program.append(pending)
                pending = []
            self.program.append(emitter.loads(feeds[place], boxes, numbers[place]))
            self.program.append(pending)
            self.bases[striped.chain.passes[place]] = part.base
            step = Step(boxes[work.result], None, True, True)
            pending = emitter.step(feeds[place], step, boxes, numbers[place])
            pending += self._shared(part, numbers[place])
            numbers[place] += 1
        self.program.append(pending)

    def _shared(self, part: Part, number: int) -> list[Written]:
        """The store of a part's new rows, where others read them too."""
        striped = self.cascade.striped
        work, value = striped.chain.works[part.place], striped.chain.passes[part.place]
        start, stop = max(self.stored.get(value, 0), part.span[0]), part.span[1]
        if value not in striped.shared or start >= stop:
            return []
        self.stored[value] = stop
        source, target = self._value(value), self.values(value)
        box = striped.chain.box(part.place, start, stop)
        return self.program.copy(
            self.program.store_queue,
            work.group.name,
            Access(source.place, box_region(source.region, box)),
            Access(target.place, box_region(target.region, box)),
            f"{value} tile {number}",
        )

    def _reads_back(self, place: int) -> bool:
        """Whether a group loads what another of the cascade has stored."""
        chain = self.cascade.striped.chain
        stored = chain.inner - self.cascade.buffers.keys()
        return any(value in stored for value in chain.works[place].operands)

    def _value(self, value: str) -> Access:
        """The access to a value; one with a buffer is seen as if it lay whole in the SRAM, the
        buffer holding its rows from `bases` on."""
        chain = self.cascade.striped.chain
        piece = chain.pieces.get(value)
        if piece is not None:
            return self._piece(value, piece)
        placed = self.cascade.buffers.get(value)
        if placed is None:
            return self.values(value)
        (tensor_type, layout), base = chain.form(value), self.bases[value]
        held = TensorType(tensor_type.dtype, box_shape(self.cascade.striped.buffer_box(value)))
        buffer = whole_region(SRAM, placed.address, held, layout)
        ahead = chain.rows_of(value, base, base + 1)
        offset = box_region(buffer, ahead).address - buffer.address
        whole = replace(buffer, address=buffer.address - offset, shape=tensor_type.shape)
        return Access(replace(slot_place(placed), is_slot=False), whole)

    def _piece(self, value: str, piece: Operator) -> Access:
        """The access to a part of what passes."""
        whole = self._value(piece.inputs[0])
        maker = next(work for work in self.cascade.striped.chain.works if work.result == value)
        seen = view_region(piece, whole.region, maker.result_type, maker.layout(value))
        assert seen is not None, f"%{value} is no part of %{piece.inputs[0]}"
        return Access(whole.place, seen)
