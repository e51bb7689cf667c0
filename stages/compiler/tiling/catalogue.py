"""Every tile that is weighed for one group, priced once, whatever turns out to be resident.

Columns are int64[rows]: one row for each box of the result and span of the contraction that the
tensor core takes in one instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stages.compiler.support import placement_alignment
from stages.compiler.tiling.candidates import extents_of, orders_of, reductions_of
from stages.compiler.tiling.extent_table import Columns, ExtentTable, dense_bytes, extent_table
from stages.compiler.tiling.streams import REDUCTION, Stream, dependencies, streams
from stages.compiler.tiling.tile_prices import TilePrices
from stages.compiler.tiling.workload import Workload, product_of
from stages.hardware.cost import TransferCost
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import DDR, SRAM
from stages.recipe.kinds import Kind
from stages.tensors import DType

_MOST_STEPS = 32  # times as many as the fewest that fit
_LARGE = 4
"""An operand's part of more than one part in so many of the SRAM is large."""
_MANY_USES = 8
_SUM_BYTES = DType.F32.size_bytes


@dataclass(frozen=True, slots=True)
class Moved:
    """What each row takes to move a stream's part once: bytes of a slot, cycles of its channel
    with the latency that other transfers don't hide, and cycles of the port to `ddr`."""

    slot_bytes: Columns
    channel: Columns
    port: Columns


@dataclass(frozen=True)
class Catalogue:
    """The tiles of one group on one device."""

    work: Workload
    spec: HardwareSpec

    @cached_property
    def streams(self) -> list[Stream]:
        """All streams of the group, as if nothing were resident."""
        return streams(self.work, dependencies(self.work), frozenset())

    @cached_property
    def table(self) -> ExtentTable:
        """The tiles, those left out that would make far more steps than others that fit too."""
        tiles = [
            (extents, reduction)
            for extents in extents_of(self.work)
            for reduction in reductions_of(self.work, self.spec)
        ]
        every = extent_table(self.work, tiles)
        kept = every.rows(_legal(self.work, every, self.spec))
        if not len(kept.reduction):
            return kept
        slots = slots_bytes(self.work, kept, self.streams, self.spec)
        fits = slots <= self.spec.sram.usable_bytes
        if not fits.any():
            return kept
        count = kept.steps(self.work)
        few = count <= _MOST_STEPS * int(count[fits].min())
        return kept.rows(few)

    @cached_property
    def tiles(self) -> Columns:
        """How many boxes each row cuts the result into."""
        found: Columns = self.counts.prod(axis=1, dtype=np.int64)
        return found

    @cached_property
    def counts(self) -> Columns:
        """Into how many parts each row cuts each axis: int64[rows, rank]."""
        return self.table.counts(self.work)

    @cached_property
    def chunks(self) -> Columns:
        """Into how many parts each row cuts the contraction."""
        return self.table.chunks(self.work)

    @cached_property
    def orders(self) -> list[tuple[int, ...]]:
        """The orders of loops that are weighed for each row."""
        return orders_of(self.work)

    @cached_property
    def accumulator_bytes(self) -> Columns:
        """Bytes of the sums, where the contraction is cut."""
        return accumulators_bytes(self.work, self.table, self.spec)

    @cached_property
    def result(self) -> Moved:
        """The way of a part of the result from its slot to `ddr`."""
        work = self.work
        found = self._moved([work.result], is_constant=False, leaves=True)
        return found

    @cached_property
    def loaded(self) -> list[Moved]:
        """The way of each stream's part from `ddr` to its slot."""
        return [self._moved(item.values, item.is_constant, leaves=False) for item in self.streams]

    def compute(self, prices: TilePrices) -> Columns:
        """Cycles of the compute instruction of one step of each row."""
        work, seed = self.work, self.work.seed
        named = [*seed.inputs[:2], seed.outputs[0], prices.stored_input(), work.result]
        needed = {name: self.table.values[name].tolist() for name in named if name}
        found = [
            prices.compute_cycles(
                {
                    value: tuple((0, extent) for extent in rows[row])
                    for value, rows in needed.items()
                }
            )
            for row in range(len(self.table.reduction))
        ]
        return np.array(found, dtype=np.int64)

    @cached_property
    def slots(self) -> list[Columns]:
        """How many slots each row has for each stream."""
        return [slots_of(self.work, self.table, item, self.spec) for item in self.streams]

    @cached_property
    def computed(self) -> Columns:
        """`compute` where no operand lies whole in the SRAM, or where that makes no difference."""
        return self.compute(TilePrices(self.work, self.spec, frozenset()))

    def loads(self, stream: Stream, order: Sequence[int]) -> Columns:
        """How often each row loads a stream: once for each change of a loop at or outside the
        innermost loop that changes it."""
        key = (stream.axes, tuple(order))
        if key not in self._known_loads:
            self._known_loads[key] = self._loads(stream, order)
        return self._known_loads[key]

    @cached_property
    def _known_loads(self) -> dict[tuple[frozenset[int], tuple[int, ...]], Columns]:
        """Answers of `loads`: whatever is resident, they are the same."""
        return {}

    def _loads(self, stream: Stream, order: Sequence[int]) -> Columns:
        loops = [(axis, self.counts[:, axis]) for axis in order] + [(REDUCTION, self.chunks)]
        total = np.ones(len(self.chunks), dtype=np.int64)
        found = total.copy()
        for axis, count in loops:
            total = total * count
            if axis in stream.axes:
                found = np.where(count > 1, total, found)
        return found

    def _moved(self, values: Sequence[str], is_constant: bool, leaves: bool) -> Moved:
        work, table, alignment = self.work, self.table, placement_alignment(self.spec.sram)
        prices = TilePrices(work, self.spec, frozenset())
        slot = sum(
            (_align(value_bytes(work, table, value), alignment) for value in values),
            start=np.zeros(len(table.reduction), dtype=np.int64),
        )
        costs: list[TransferCost]
        if is_constant:
            sizes = sum(
                (value_bytes(work, table, value) for value in values),
                start=np.zeros(len(slot), dtype=np.int64),
            )
            costs = [prices.block_cost(size) for size in sizes.tolist()]
        else:
            (value,) = values
            ends = (SRAM, DDR) if leaves else (DDR, SRAM)
            costs = [
                prices.box_cost(value, {value: tuple((0, extent) for extent in row)}, *ends)
                for row in table.values[value].tolist()
            ]
        outstanding = self.spec.dma.outstanding
        channel = [
            max(cost.channel_cycles, -(-(cost.latency_cycles + cost.channel_cycles) // outstanding))
            for cost in costs
        ]
        port = [cost.port_cycles for cost in costs]
        return Moved(slot, np.array(channel, dtype=np.int64), np.array(port, dtype=np.int64))


def value_bytes(work: Workload, table: ExtentTable, value: str) -> Columns:
    """Bytes of a value's part when it lies densely; 0 where no tile needs it."""
    columns = table.values.get(value)
    if columns is None:
        return np.zeros(len(table.reduction), dtype=np.int64)
    return dense_bytes(columns, work.layout(value), work.types[value].dtype.size_bytes)


def accumulators_bytes(work: Workload, table: ExtentTable, spec: HardwareSpec) -> Columns:
    """Bytes of the sums of a tile whose contraction is cut, else 0."""
    value = work.seed.outputs[0]
    sums = dense_bytes(table.values[value], work.layout(value), _SUM_BYTES)
    found: Columns = np.where(
        table.chunks(work) > 1, _align(sums, placement_alignment(spec.sram)), 0
    )
    return found


def slots_bytes(
    work: Workload, table: ExtentTable, moved: Sequence[Stream], spec: HardwareSpec
) -> Columns:
    """Bytes of all slots."""
    alignment = placement_alignment(spec.sram)
    total: Columns = accumulators_bytes(work, table, spec)
    for stream in moved:
        slots = slots_of(work, table, stream, spec)
        for value in stream.values:
            total += slots * _align(value_bytes(work, table, value), alignment)
    result = _align(value_bytes(work, table, work.result), alignment)
    total += result_slots(work, table) * result
    return total


def slots_of(work: Workload, table: ExtentTable, stream: Stream, spec: HardwareSpec) -> Columns:
    """Slots of a stream: two where it is loaded more than once. Of what changes only from sum to
    sum, while each is made in several steps, there is time to load the next part in the place of
    the last one; and of a large operand that stays for many steps a second part would take the
    room of all that changes meanwhile."""
    counts, chunks = table.counts(work), table.chunks(work)
    cut = np.zeros(len(table.reduction), dtype=np.bool_)
    for axis in sorted(stream.axes - {REDUCTION}):
        cut |= counts[:, axis] > 1
    cut = (cut | (chunks > 1)) if REDUCTION in stream.axes else (cut & (chunks == 1))
    cut &= ~_stays_long(work, table, stream, spec)
    found: Columns = np.where(cut, 2, 1).astype(np.int64)
    return found


def _stays_long(
    work: Workload, table: ExtentTable, stream: Stream, spec: HardwareSpec
) -> NDArray[np.bool_]:
    """Rows in which a stream's part is large and is used in many steps."""
    if stream.is_constant:
        return np.zeros(len(table.reduction), dtype=np.bool_)
    counts = table.counts(work)
    uses = np.ones(len(table.reduction), dtype=np.int64)
    for axis in range(counts.shape[1]):
        if axis not in stream.axes:
            uses *= counts[:, axis]
    size = value_bytes(work, table, stream.values[0])
    is_large = size * _LARGE > spec.sram.usable_bytes
    found: NDArray[np.bool_] = is_large & (uses >= _MANY_USES) & (table.chunks(work) == 1)
    return found


def result_slots(work: Workload, table: ExtentTable) -> Columns:
    """Slots of the result."""
    several = table.counts(work).prod(axis=1, dtype=np.int64) > 1
    found: Columns = np.where(several & (table.chunks(work) == 1), 2, 1).astype(np.int64)
    return found


def _legal(work: Workload, table: ExtentTable, spec: HardwareSpec) -> Columns:
    """Rows whose contraction one instruction of the tensor core takes."""
    core, seed = spec.tensor_core, work.seed
    every = np.arange(len(table.reduction), dtype=np.int64)
    if work.whole_product is None:
        return every
    margin = int(seed.kind is Kind.CONV_TRANSPOSE)
    names = (seed.outputs[0], seed.inputs[0], seed.inputs[1])
    shapes = [table.values[name].tolist() for name in names]
    kept = []
    for row, (out, x, w) in enumerate(zip(*shapes, strict=True)):
        # Another tile of a transposed convolution may meet one input pixel more along each axis.
        pixels = (*x[:2], *(extent + margin for extent in x[2:]))
        product = product_of(seed, tuple(out), pixels, tuple(w))
        if product.m <= core.max_m and product.n <= core.max_n and product.k <= core.max_k:
            kept.append(row)
    return np.array(kept, dtype=np.int64)


def _align(sizes: Columns, alignment: int) -> Columns:
    found: Columns = -(-sizes // alignment) * alignment
    return found
