"""What one tile of a group costs: its arithmetic, and its way in and out.

A search asks for the same few boxes again and again, so what was priced is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from stages.compiler.tiling.streams import (
    Stream,
    box_bytes,
    contiguous_bytes,
    stream_bytes,
)
from stages.compiler.tiling.workload import Boxes, Product, Workload
from stages.hardware.cost import (
    Side,
    TransferCost,
    by_channel_elements,
    contraction_cycles,
    drained_cycles,
    driven_cycles,
    gathered_cycles,
    output_blocks,
    reduced_cycles,
    strided_transfer_cost,
    transfer_cost,
    vector_cycles,
)
from stages.hardware.interleave import WHOLE, Pattern, pattern_of
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import DDR, SRAM
from stages.plan.prices import (
    READ_SIDED,
    channels_by_number,
    has_conflicts,
    reduction_stop,
    row_strides,
    spatial_strides,
)
from stages.recipe.kinds import Kind
from stages.tensors import Shape, box_shape, dense_strides


@dataclass(frozen=True, slots=True)
class TilePrices:
    """Prices of the tiles of one group. `resident` values lie in the SRAM whole."""

    work: Workload
    spec: HardwareSpec
    resident: frozenset[str]
    computing: dict[object, int] = field(default_factory=dict)
    moving: dict[object, TransferCost] = field(default_factory=dict)

    def compute_cycles(self, boxes: Boxes) -> int:
        """Cycles of the compute instruction of one tile."""
        return self.product_cycles(self.work.product(boxes), boxes)

    def product_cycles(self, product: Product | None, boxes: Boxes) -> int:
        """The same where the contraction of its boxes is known: None where there is none."""
        work = self.work
        if product is not None:
            key: object = (product, box_shape(boxes[self.stored_input()]))
            found = self.computing.get(key)
            if found is None:
                found = self.computing[key] = self._contraction_cycles(product, boxes)
            return found
        results = self._worked_elements(box_shape(boxes[work.result]))
        read = work.read_elements(boxes) if work.seed.kind in READ_SIDED else 0
        key = (results, read) if read > results else results
        found = self.computing.get(key)
        if found is None:
            found = self.computing[key] = self._vector_cycles(results, read)
        return found

    def _worked_elements(self, box: Shape) -> int:
        """Elements of a box of the result; of an image all that a pixel takes, so that its channels
        stay together where they can."""
        held = self.work.types
        shapes = [held[value].shape for value in self.work.operands]
        if not channels_by_number(self.spec, held[self.work.result].shape, shapes):
            return prod(box)
        return by_channel_elements(self.spec.vector, prod(box), box[1])

    def _vector_cycles(self, results: int, read: int) -> int:
        kinds = [member.kind for member in self.work.members]
        unit, width = self.spec.vector, self.work.result_type.dtype.size_bytes
        if read <= results:
            return vector_cycles(unit, kinds, results, width)
        until = reduction_stop(kinds)
        return reduced_cycles(unit, kinds[:until], read, width, kinds[until:], results, width)

    def _contraction_cycles(self, product: Product, boxes: Boxes) -> int:
        work, core = self.work, self.spec.tensor_core
        cycles = contraction_cycles(
            core,
            product.m,
            product.n,
            product.k,
            product.groups,
            product.taps,
            work.operand_dtype,
        )
        cycles = driven_cycles(core, cycles, self._row_strides(boxes))
        cycles = gathered_cycles(
            core,
            cycles,
            product.k // product.taps,
            spatial_strides(work.members),
            self._input_bytes(boxes),
        )
        blocks = output_blocks(core, product.m, product.n, product.groups)
        kinds = [member.kind for member in work.members]
        return drained_cycles(core, cycles, blocks, kinds, work.result_type.dtype)

    def _input_bytes(self, boxes: Boxes) -> int:
        """Bytes of the contraction's input in a tile, padding of its layout left out."""
        value = self.stored_input()
        return prod(box_shape(boxes[value])) * self.work.types[value].dtype.size_bytes

    def stored_input(self) -> str:
        """The contraction's input before any dequantize."""
        value = self.work.seed.inputs[0]
        for member in self.work.members:
            if member.kind is Kind.DEQUANTIZE and member.outputs[0] == value:
                return member.inputs[0]
        return value

    def _row_strides(self, boxes: Boxes) -> tuple[int, ...]:
        """The strides of the contraction's input as it will lie in the SRAM: whole where it is
        resident, a dense box of it in a slot."""
        value = self.stored_input()
        held = self.work.types[value]
        shape = held.shape if value in self.resident else box_shape(boxes[value])
        physical = self.work.layout(value).physical_shape(shape)
        strides = dense_strides(physical, held.dtype.size_bytes)
        return row_strides(physical, strides)

    def block_cost(self, size_bytes: int) -> TransferCost:
        """What it takes to load an unbroken block of constants."""
        found = self.moving.get(size_bytes)
        if found is None:
            found = self.moving[size_bytes] = transfer_cost(
                self.spec, size_bytes, size_bytes, DDR, SRAM
            )
        return found

    def load_costs(self, stream: Stream, boxes: Boxes) -> Iterator[TransferCost]:
        """The transfers that bring in a stream's part of some boxes."""
        if stream.is_constant:
            yield self.block_cost(stream_bytes(self.work, stream, boxes, 1))
            return
        for value in stream.values:
            yield self.box_cost(value, boxes, DDR, SRAM)

    def box_cost(self, value: str, boxes: Boxes, source: str, target: str) -> TransferCost:
        """What it takes to move a box of a value between a slot and the whole value in ddr."""
        box = boxes[value]
        key = (value, source, box_shape(box))
        found = self.moving.get(key)
        if found is None:
            tensor_type, layout = self.work.types[value], self.work.layout(value)
            size = box_bytes(tensor_type, layout, box)
            run = contiguous_bytes(tensor_type, layout, box)
            patterns = {SRAM: WHOLE, DDR: self._pattern(value, boxes)}
            found = self.moving[key] = strided_transfer_cost(
                self.spec,
                size,
                run,
                Side(source, patterns[source]),
                Side(target, patterns[target]),
            )
        return found

    def _pattern(self, value: str, boxes: Boxes) -> Pattern:
        """How a box of a value lies in the ddr, where it matters."""
        if not has_conflicts(self.spec.ddr):
            return WHOLE
        held, layout = self.work.types[value], self.work.layout(value)
        whole, part = (
            layout.physical_shape(shape) for shape in (held.shape, box_shape(boxes[value]))
        )
        return pattern_of(part, dense_strides(whole, held.dtype.size_bytes), held.dtype.size_bytes)
