"""The price of each instruction: finds the numbers that `hardware/cost.py` asks for.

Prices depend on an instruction's shapes, and on what it finds in a cache where the device has one,
so equal ones are priced once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from stages.hardware.cost import (
    CacheUse,
    Side,
    TransferCost,
    by_channel_elements,
    cached_transfer_cost,
    contraction_cycles,
    drained_cycles,
    driven_cycles,
    gathered_cycles,
    kept_weights_cost,
    output_blocks,
    reduced_cycles,
    strided_transfer_cost,
    transfer_cost,
    vector_cycles,
)
from stages.hardware.interleave import WHOLE, pattern_of
from stages.hardware.spec import HardwareSpec, Memory
from stages.plan.ddr_traffic import KeptConstants
from stages.plan.host_prices import host_call_cycles
from stages.plan.instructions import (
    DDR,
    NO_KERNEL,
    Contraction,
    Instruction,
    Kernel,
    Opcode,
    Plan,
    Region,
)
from stages.plan.tables import table_reads
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import Shape

READ_SIDED = frozenset(
    {
        Kind.BATCH_NORM,
        Kind.LAYER_NORM,
        Kind.INSTANCE_NORM,
        Kind.SOFTMAX,
        Kind.LOG_SOFTMAX,
        Kind.SOFTMAX_NUMERATOR,
        Kind.MAX_POOL,
        Kind.AVERAGE_POOL,
        Kind.REDUCE_SUM,
        Kind.REDUCE_MEAN,
        Kind.REDUCE_MAX,
        Kind.REDUCE_MIN,
        Kind.REDUCE_PROD,
        Kind.REDUCE_L1,
        Kind.REDUCE_L2,
        Kind.REDUCE_SUM_SQUARE,
    }
)
"""Kinds whose vector work grows with what they read, not with what they write."""

IMAGE_RANK = 4
"""Batch, channels, rows, columns."""

Price = tuple[int, int, int]
"""Cycles of the work itself; of latency before it (transfers); of the DDR port (transfers)."""


@dataclass(frozen=True, slots=True)
class Pricer:
    """Prices instructions of one plan and remembers what it priced."""

    plan: Plan
    spec: HardwareSpec
    kept: KeptConstants
    constants: frozenset[tuple[str, int]]
    known: dict[object, Price] = field(default_factory=dict)

    def price(self, instruction: Instruction, use: CacheUse | None) -> Price:
        """The price of an instruction that found `use` in the cache."""
        if instruction.opcode is Opcode.THERMAL_BACKOFF:
            return (instruction.cycles, 0, 0)
        if instruction.opcode is Opcode.HOST_CALL:
            kernel = self.plan.kernels[instruction.kernel]
            return (host_call_cycles(instruction, kernel, self.constants, self.spec), 0, 0)
        if instruction.opcode is Opcode.DMA_COPY:
            kept = self.kept.holds(instruction)
            key: object = (_transfer_key(instruction), use, kept)
        elif instruction.contraction is not None:
            key = (
                instruction.contraction,
                _input_strides(instruction, self.spec),
                instruction.kernel,
                instruction.writes[0].dtype if instruction.writes else None,
            )
        else:
            key = (
                instruction.kernel,
                tuple(region.shape for region in instruction.writes),
                tuple((region.shape, region.memory) for region in instruction.reads),
            )
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._price(instruction, use)
        return found

    def _price(self, instruction: Instruction, use: CacheUse | None) -> Price:
        if instruction.opcode is Opcode.DMA_COPY:
            cost = self._transfer(instruction, use)
            return (cost.channel_cycles, cost.latency_cycles, cost.port_cycles)
        if instruction.contraction is not None:
            return (self._contraction(instruction, instruction.contraction), 0, 0)
        kernel = self.plan.kernels[instruction.kernel]
        return (_vector_cycles(instruction, kernel, self.spec), 0, 0)

    def _contraction(self, instruction: Instruction, work: Contraction) -> int:
        core = self.spec.tensor_core
        cycles = contraction_cycles(
            core, work.m, work.n, work.k, work.groups, work.taps, work.dtype
        )
        cycles = driven_cycles(core, cycles, _input_strides(instruction, self.spec))
        if instruction.kernel == NO_KERNEL or not instruction.writes:
            return cycles
        operators = self.plan.kernels[instruction.kernel].operators
        cycles = gathered_cycles(
            core,
            cycles,
            work.k // work.taps,
            spatial_strides(operators),
            _input_bytes(instruction),
        )
        kinds = [operator.kind for operator in operators]
        blocks = output_blocks(core, work.m, work.n, work.groups)
        return drained_cycles(core, cycles, blocks, kinds, instruction.writes[0].dtype)

    def _transfer(self, instruction: Instruction, use: CacheUse | None) -> TransferCost:
        source, target = instruction.reads[0], instruction.writes[0]
        run = min(source.contiguous_bytes, target.contiguous_bytes)
        size, spec = source.size_bytes, self.spec
        if spec.weight_cache is not None and self.kept.holds(instruction):
            bandwidth = spec.weight_cache.read_bandwidth
            return kept_weights_cost(spec, bandwidth, size, run, target.memory)
        ends = _side(source, spec), _side(target, spec)
        if spec.l2 is not None and use is not None:
            return cached_transfer_cost(spec, spec.l2, size, run, *ends, use)
        return strided_transfer_cost(spec, size, run, *ends)


def pricer(plan: Plan, spec: HardwareSpec, kept: KeptConstants) -> Pricer:
    """The pricer of a plan."""
    constants = frozenset((item.region.memory, item.region.address) for item in plan.constants)
    return Pricer(plan, spec, kept, constants)


def _side(region: Region, spec: HardwareSpec) -> Side:
    memory = spec.ddr if region.memory == DDR else spec.sram
    if not has_conflicts(memory):
        return Side(region.memory, WHOLE)
    pattern = pattern_of(region.physical_shape, region.strides, region.dtype.size_bytes)
    return Side(region.memory, pattern)


def has_conflicts(memory: Memory) -> bool:
    """Whether it matters how an access lies in this memory."""
    return memory.channels > 1 or (memory.banks > 1 and memory.bank_interleave_bytes > 0)


def _transfer_key(instruction: Instruction) -> object:
    source, target = instruction.reads[0], instruction.writes[0]
    return (
        source.shape,
        source.strides,
        source.memory,
        target.strides,
        target.memory,
        source.dtype,
        id(source.layout),
        id(target.layout),
    )


def row_strides(physical_shape: Shape, strides: Sequence[int]) -> tuple[int, ...]:
    """The strides, in bytes, at which a contraction steps through its input: those of all axes
    of more than one element but the innermost."""
    return tuple(
        stride
        for extent, stride in zip(physical_shape[:-1], strides[:-1], strict=True)
        if extent > 1
    )


def spatial_strides(operators: Sequence[Operator]) -> tuple[int, ...]:
    """The strides of the convolution among the operators; none where there is none."""
    for operator in operators:
        if operator.kind is Kind.CONV:
            return operator.integers("strides")
    return ()


def _input_bytes(instruction: Instruction) -> int:
    """Bytes of a contraction's input, padding of its layout left out."""
    if not instruction.reads:
        return 0
    return prod(instruction.reads[0].shape) * instruction.reads[0].dtype.size_bytes


def _input_strides(instruction: Instruction, spec: HardwareSpec) -> tuple[int, ...]:
    """The row strides of a contraction's input; none where the core has no lanes to lose."""
    core = spec.tensor_core
    if core.misaligned_lanes == core.lanes or not instruction.reads:
        return ()
    return row_strides(instruction.reads[0].physical_shape, instruction.reads[0].strides)


def reduction_stop(kinds: Sequence[Kind]) -> int:
    """How many kinds of a chain work on what it reads: up to the last one that reduces; 0 where
    none does."""
    return max((at + 1 for at, kind in enumerate(kinds) if kind in READ_SIDED), default=0)


def _elements(regions: Sequence[Region]) -> int:
    return sum(prod(region.shape) for region in regions)


def channels_by_number(spec: HardwareSpec, result: Shape, operands: Iterable[Shape]) -> int:
    """The channels of an image that meets an operand with a number for each of them; 0 where that
    costs nothing of its own, or it isn't one: a single channel's number is any single number."""
    if not spec.vector.pixel_channels or len(result) != IMAGE_RANK:
        return 0
    channels = result[1]
    if not 1 < channels <= spec.tensor_core.image_channels:
        return 0
    return channels if (1, channels, 1, 1) in operands else 0


def _vector_cycles(instruction: Instruction, kernel: Kernel, spec: HardwareSpec) -> int:
    """Cycles of a vector instruction; a table read straight from DDR streams in beside the work,
    so the slower of the two counts, after the memory's latency."""
    kinds = tuple(operator.kind for operator in kernel.operators)
    writes = instruction.writes
    elements = _elements(writes)
    element_bytes = max((region.dtype.size_bytes for region in writes), default=1)
    widest = max(instruction.reads, key=lambda region: prod(region.shape), default=None)
    until = reduction_stop(kinds)
    if until and widest is not None and prod(widest.shape) > elements:
        cycles = reduced_cycles(
            spec.vector,
            kinds[:until],
            prod(widest.shape),
            widest.dtype.size_bytes,
            kinds[until:],
            elements,
            element_bytes,
        )
    else:
        shapes = [region.shape for region in instruction.reads]
        channels = channels_by_number(spec, writes[0].shape if writes else (), shapes)
        if channels:
            elements = by_channel_elements(spec.vector, elements, channels)
        cycles = vector_cycles(spec.vector, kinds, elements, element_bytes)
    tables = table_reads(instruction, kernel)
    if not tables:
        return cycles
    streams = [
        transfer_cost(spec, table.size_bytes, table.run_bytes, DDR, writes[0].memory)
        for table in tables
    ]
    channel_cycles = sum(stream.channel_cycles for stream in streams)
    return max(stream.latency_cycles for stream in streams) + max(cycles, channel_cycles)
