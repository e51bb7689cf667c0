"""The price of each instruction: finds the numbers that `hardware/cost.py` asks for.

Prices depend on an instruction's shapes, and on what it finds in a cache where the device has one,
so equal ones are priced once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from stages.hardware.cost import (
    CacheUse,
    Side,
    TransferCost,
    cached_transfer_cost,
    contraction_cycles,
    drained_cycles,
    driven_cycles,
    gathered_cycles,
    host_cycles,
    kept_weights_cost,
    output_blocks,
    strided_transfer_cost,
    transfer_cost,
    vector_cycles,
)
from stages.hardware.interleave import WHOLE, pattern_of
from stages.hardware.spec import HardwareSpec, Memory
from stages.plan.ddr_traffic import KeptConstants
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
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.operators import flops
from stages.tensors import DType, Shape, TensorType

READ_SIDED = frozenset(
    {
        Kind.BATCH_NORM,
        Kind.LAYER_NORM,
        Kind.INSTANCE_NORM,
        Kind.SOFTMAX,
        Kind.LOG_SOFTMAX,
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
            return (_host_cycles(instruction, self.plan.kernels, self.constants, self.spec), 0, 0)
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
        width = drained_bytes(instruction.writes[0].dtype)
        return drained_cycles(core, cycles, blocks, kinds, width)

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


def drained_bytes(result: DType) -> int:
    """Bytes of an element that leaves the tensor core; 0 for f32, which sums in parts have: they
    stay where they are added up."""
    return 0 if result is DType.F32 else result.size_bytes


def _input_strides(instruction: Instruction, spec: HardwareSpec) -> tuple[int, ...]:
    """The row strides of a contraction's input; none where the core has no lanes to lose."""
    core = spec.tensor_core
    if core.misaligned_lanes == core.lanes or not instruction.reads:
        return ()
    return row_strides(instruction.reads[0].physical_shape, instruction.reads[0].strides)


def _elements(regions: Sequence[Region]) -> int:
    return sum(prod(region.shape) for region in regions)


def _vector_cycles(instruction: Instruction, kernel: Kernel, spec: HardwareSpec) -> int:
    """Cycles of a vector instruction; a table read straight from DDR streams in beside the work,
    so the slower of the two counts, after the memory's latency."""
    kinds = tuple(operator.kind for operator in kernel.operators)
    writes = instruction.writes
    elements = _elements(writes)
    element_bytes = max((region.dtype.size_bytes for region in writes), default=1)
    if not READ_SIDED.isdisjoint(kinds) and instruction.reads:
        widest = max(instruction.reads, key=lambda region: prod(region.shape))
        if prod(widest.shape) > elements:
            elements = prod(widest.shape)
            element_bytes = widest.dtype.size_bytes
    cycles = vector_cycles(spec.vector, kinds, elements, element_bytes)
    table = next((region for region in instruction.reads if region.memory == DDR), None)
    if table is None:
        return cycles
    row_bytes = min(table.contiguous_bytes, writes[0].size_bytes)
    if Kind.GATHER in kinds and table.shape:
        row_bytes = max(1, table.size_bytes // table.shape[0])
    size_bytes = min(table.size_bytes, sum(region.size_bytes for region in writes))
    stream = transfer_cost(spec, size_bytes, min(row_bytes, size_bytes), DDR, writes[0].memory)
    return stream.latency_cycles + max(cycles, stream.channel_cycles)


def _host_cycles(
    instruction: Instruction,
    kernels: Sequence[Kernel],
    constants: frozenset[tuple[str, int]],
    spec: HardwareSpec,
) -> int:
    """Host time and transfers; constants lie with the host already and don't cross the link."""
    kernel = kernels[instruction.kernel]
    operations = sum(operator_flops(operator, kernel.types) for operator in kernel.operators)
    moved = sum(
        kernel.types[name].size_bytes
        for operator in kernel.operators
        for name in (*operator.operands, *operator.outputs)
    )
    crossing = [
        region for region in instruction.reads if (region.memory, region.address) not in constants
    ]
    link = sum(region.size_bytes for region in (*crossing, *instruction.writes))
    return host_cycles(spec, len(kernel.operators), operations, moved, link)


def operator_flops(operator: Operator, types: Mapping[str, TensorType]) -> int:
    """Arithmetic of one operator. Of a `host_call` only the operands and results are known: one
    operation for each element of either."""
    if operator.kind is Kind.HOST_CALL:
        touched = (types[name] for name in (*operator.operands, *operator.outputs))
        return sum(type_.element_count for type_ in touched)
    operands = [types[name] if name else None for name in operator.inputs]
    return flops(operator, operands, [types[name] for name in operator.outputs])
