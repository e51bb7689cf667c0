"""What spans of one group's result cost, by the one cost model; each is worked out once."""

from __future__ import annotations

from dataclasses import dataclass, field

from stages.compiler.support import placement_alignment
from stages.compiler.tiling.footprint import Span
from stages.compiler.tiling.streams import (
    Stream,
    align,
    box_bytes,
    dependencies,
    stream_bytes,
    streams,
)
from stages.compiler.tiling.tile_prices import TilePrices
from stages.compiler.tiling.workload import Boxes, Product, Workload
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import DDR, SRAM
from stages.tensors import full_box


@dataclass(frozen=True, slots=True)
class Moved:
    """A transfer: cycles on its channel, latency before it, bytes, and bytes of a slot."""

    cycles: int
    latency: int
    size_bytes: int
    slot_bytes: int


@dataclass(slots=True)
class SpanPrices:
    """Prices of spans of one group's result along an axis, in the middle of it. `extent` of that
    axis; `step`: what cuts are multiples of."""

    work: Workload
    axis: int
    spec: HardwareSpec
    resident: frozenset[str]
    prices: TilePrices = field(init=False)
    spans: dict[int, Boxes] = field(default_factory=dict)
    computed: dict[int, int | None] = field(default_factory=dict)
    parts: dict[Span, int | None] = field(default_factory=dict)
    moved: dict[tuple[str, int], Moved] = field(default_factory=dict)
    apart: dict[tuple[str, int], int | None] = field(default_factory=dict)
    loaded: list[Stream] = field(init=False)
    cuts_constants: bool = field(init=False)
    fixed: Moved = field(init=False)
    extent: int = field(init=False)
    step: int = field(init=False)
    brought: dict[int, Moved] = field(default_factory=dict)

    def __post_init__(self) -> None:
        everything = frozenset(self.work.types) - self.work.constants
        self.prices = TilePrices(self.work, self.spec, everything)
        self.extent = self.work.result_type.shape[self.axis]
        self.step = self.work.granularity(self.axis)
        near = self.resident | {*self.work.operands}
        self.loaded = streams(self.work, dependencies(self.work), near)
        self.cuts_constants = any(self.axis in stream.axes for stream in self.loaded)
        self.fixed = self._brought(self.extent)

    def whole(self, length: int) -> int:
        """A length as cuts can have it: in whole blocks, and no longer than the result."""
        return min(self.extent, align(length, self.step))

    def boxes(self, length: int) -> Boxes:
        """The boxes of a span of a length."""
        found = self.spans.get(length)
        if found is None:
            box = list(full_box(self.work.result_type.shape))
            start = (self.extent - length) // 2 // self.step * self.step
            box[self.axis] = (start, start + length)
            found = self.spans[length] = self.work.boxes(tuple(box))
        return found

    def compute_cycles(self, length: int) -> int | None:
        """Cycles of one instruction that makes a span; None where the tensor core can't."""
        if length not in self.computed:
            self.computed[length] = self._made_in(self.boxes(length))
        return self.computed[length]

    def part_cycles(self, span: Span, boxes: Boxes) -> int | None:
        """Cycles of one instruction that makes just these rows; None where the tensor core
        can't."""
        if span not in self.parts:
            self.parts[span] = self._made_in(boxes)
        return self.parts[span]

    def _made_in(self, boxes: Boxes) -> int | None:
        product = self.work.product(boxes)
        fits = product is None or keeps_limits(product, self.spec)
        return self.prices.product_cycles(product, boxes) if fits else None

    def total_cycles(self, total: int, rounds: int) -> int | None:
        """Cycles of so many rows in so many instructions, some of one row more than others; None
        where the tensor core can't."""
        most = self.whole(-(-total // rounds))
        cycles, least = self.compute_cycles(most), most - self.step
        if cycles is None or least <= 0:
            return cycles if cycles is None else rounds * cycles
        longer = min(rounds, max(0, -(-(total - least * rounds) // self.step)))
        return longer * cycles + (rounds - longer) * (self.compute_cycles(least) or 0)

    def transfer(self, value: str, length: int) -> Moved:
        """What it takes to bring in the box of an operand, or take out that of the result."""
        found = self.moved.get((value, length))
        if found is None:
            boxes = self.boxes(length)
            ends = (SRAM, DDR) if value == self.work.result else (DDR, SRAM)
            cost = self.prices.box_cost(value, boxes, *ends)
            size = box_bytes(self.work.types[value], self.work.layout(value), boxes[value])
            slot = align(size, placement_alignment(self.spec.sram))
            found = Moved(cost.channel_cycles, cost.latency_cycles, size, slot)
            self.moved[value, length] = found
        return found

    def buffer_bytes(self, capacity: int) -> int:
        """What a buffer of so many rows of the result takes."""
        row = self.transfer(self.work.result, min(self.step, self.extent))
        alignment = placement_alignment(self.spec.sram)
        return align(-(-capacity // self.step) * row.size_bytes, alignment)

    def rows_apart(self, value: str, cut: int, length: int) -> int | None:
        """Rows of an operand, cut along `cut`, that a span needs where the next span needs none of
        them; None where they share some."""
        key = (value, length)
        if key not in self.apart:
            self.apart[key] = self._rows_apart(value, cut, length)
        return self.apart[key]

    def _rows_apart(self, value: str, cut: int, length: int) -> int | None:
        if 2 * length > self.extent:
            return None
        (low, high), (first, last) = (self.boxes(n)[value][cut] for n in (length, 2 * length))
        return None if last - first < 2 * (high - low) else high - low

    def constants(self, length: int) -> Moved:
        """The group's constants, brought in once: what a span needs of those that the axis cuts
        while the span before is made, in two slots."""
        if length >= self.extent or not self.cuts_constants:
            return self.fixed
        found = self.brought.get(length)
        if found is None:
            found = self.brought[length] = self._brought(length)
        return found

    def _brought(self, length: int) -> Moved:
        work, whole = self.work, self.boxes(self.extent)
        alignment = placement_alignment(self.spec.sram)
        cycles = latency = size = slots = 0
        for stream in self.loaded:
            is_cut = self.axis in stream.axes and length < self.extent
            boxes = self.boxes(length) if is_cut else whole
            times = -(-self.extent // length) if is_cut else 1
            for cost in self.prices.load_costs(stream, boxes):
                cycles += times * cost.channel_cycles
                latency += times * cost.latency_cycles
            size += stream_bytes(work, stream, whole, alignment)
            slots += (2 if is_cut else 1) * stream_bytes(work, stream, boxes, alignment)
        return Moved(cycles, latency, size, slots)


def keeps_limits(product: Product, spec: HardwareSpec) -> bool:
    """Whether one instruction of the tensor core takes a contraction."""
    core = spec.tensor_core
    return product.m <= core.max_m and product.n <= core.max_n and product.k <= core.max_k
