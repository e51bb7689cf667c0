"""What each instruction of a plan costs on a device, in columns: cycles of the nominal clock.

The arithmetic is `hardware/cost.py`'s; this module only finds the numbers that it asks for. Costs
depend on an instruction's shapes alone, so equal ones are priced once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import prod

from stages.hardware.cost import (
    contraction_cycles,
    drained_cycles,
    driven_cycles,
    host_cycles,
    launch_cycles,
    nanoseconds_to_cycles,
    output_blocks,
    transfer_cost,
    vector_cycles,
)
from stages.hardware.spec import HardwareSpec, SyncMode
from stages.plan.instructions import DDR, Instruction, Kernel, Opcode, Plan, Region
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.operators import flops
from stages.tensors import DType, Shape, TensorType


class Role(IntEnum):
    """How the clock treats an instruction."""

    TRANSFER = 0
    COMPUTE = 1
    HOST = 2
    SIGNAL = 3
    WAIT = 4
    BACKOFF = 5


_ROLES: Mapping[Opcode, Role] = {
    Opcode.DMA_COPY: Role.TRANSFER,
    Opcode.TENSOR_CORE_GEMM: Role.COMPUTE,
    Opcode.TENSOR_CORE_CONV: Role.COMPUTE,
    Opcode.VECTOR: Role.COMPUTE,
    Opcode.ACTIVATION: Role.COMPUTE,
    Opcode.HOST_CALL: Role.HOST,
    Opcode.SIGNAL_EVENT: Role.SIGNAL,
    Opcode.WAIT_EVENT: Role.WAIT,
    Opcode.THERMAL_BACKOFF: Role.BACKOFF,
}

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
class Costs:
    """One entry an instruction in each column.

    `cycles`: the work (of a transfer: how long its channel is busy; of a back-off: its length).
    `launch`: the driver's overhead where a group begins. `latency`, `port`: of transfers, else 0.
    `queues` indexes `queue_names`.
    """

    queue_names: tuple[str, ...]
    roles: Sequence[Role]
    queues: Sequence[int]
    cycles: Sequence[int]
    launch: Sequence[int]
    latency: Sequence[int]
    port: Sequence[int]
    events: Sequence[int]
    submit_cycles: int
    event_cycles: int
    outstanding: int
    strict: bool


def instruction_costs(plan: Plan, spec: HardwareSpec) -> Costs:
    """The jitter-free cost of every instruction at the nominal clock."""
    queue_index = {name: index for index, name in enumerate(plan.queues)}
    launches = {name: launch_cycles(spec, engine_of(name)) for name in plan.queues}
    price = _pricer(plan, spec)
    roles = [_ROLES[instruction.opcode] for instruction in plan.instructions]
    prices = [
        (0, 0, 0) if role is Role.SIGNAL or role is Role.WAIT else price(instruction)
        for role, instruction in zip(roles, plan.instructions, strict=True)
    ]
    return Costs(
        queue_names=plan.queues,
        roles=roles,
        queues=[queue_index[instruction.queue] for instruction in plan.instructions],
        cycles=[item[0] for item in prices],
        launch=[
            launches[instruction.queue] if instruction.launch else 0
            for instruction in plan.instructions
        ],
        latency=[item[1] for item in prices],
        port=[item[2] for item in prices],
        events=[instruction.event for instruction in plan.instructions],
        submit_cycles=nanoseconds_to_cycles(spec, spec.driver.submit_ns),
        event_cycles=spec.driver.event_cycles,
        outstanding=spec.dma.outstanding,
        strict=spec.driver.sync_mode is SyncMode.STRICT,
    )


def engine_of(queue: str) -> str:
    """The engine class that a queue feeds: `dma` for `dma0`, `dma1`, ...; others as named."""
    return "dma" if queue.startswith("dma") else queue


def _pricer(plan: Plan, spec: HardwareSpec) -> Callable[[Instruction], Price]:
    """A function that prices instructions of this plan and remembers what it priced."""
    constants = {(item.region.memory, item.region.address) for item in plan.constants}
    known: dict[object, Price] = {}

    def price(instruction: Instruction) -> Price:
        if instruction.opcode is Opcode.DMA_COPY:
            key: object = _transfer_key(instruction)
        elif instruction.contraction is not None:
            key = (
                instruction.contraction,
                _input_strides(instruction, spec),
                instruction.kernel,
                instruction.writes[0].dtype,
            )
        elif instruction.opcode is Opcode.THERMAL_BACKOFF:
            return (instruction.cycles, 0, 0)
        elif instruction.opcode is Opcode.HOST_CALL:
            return (_host_cycles(instruction, plan.kernels, constants, spec), 0, 0)
        else:
            key = (
                instruction.kernel,
                tuple(region.shape for region in instruction.writes),
                tuple((region.shape, region.memory) for region in instruction.reads),
            )
        found = known.get(key)
        if found is None:
            found = known[key] = _price(instruction, plan.kernels, spec)
        return found

    return price


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


def _input_strides(instruction: Instruction, spec: HardwareSpec) -> tuple[int, ...]:
    """The row strides of a contraction's input; none where the core has no lanes to lose."""
    core = spec.tensor_core
    if core.misaligned_lanes == core.lanes or not instruction.reads:
        return ()
    return row_strides(instruction.reads[0].physical_shape, instruction.reads[0].strides)


def drained_bytes(result: DType) -> int:
    """Bytes of an element that leaves the tensor core; 0 for f32, which sums in parts have: they
    stay where they are added up."""
    return 0 if result is DType.F32 else result.size_bytes


def _price(instruction: Instruction, kernels: Sequence[Kernel], spec: HardwareSpec) -> Price:
    if instruction.opcode is Opcode.DMA_COPY:
        source, target = instruction.reads[0], instruction.writes[0]
        run = min(source.contiguous_bytes, target.contiguous_bytes)
        cost = transfer_cost(spec, source.size_bytes, run, source.memory, target.memory)
        return (cost.channel_cycles, cost.latency_cycles, cost.port_cycles)
    work = instruction.contraction
    if work is not None:
        core = spec.tensor_core
        cycles = contraction_cycles(
            core, work.m, work.n, work.k, work.groups, work.taps, work.dtype
        )
        cycles = driven_cycles(core, cycles, _input_strides(instruction, spec))
        kinds = [operator.kind for operator in kernels[instruction.kernel].operators]
        blocks = output_blocks(core, work.m, work.n, work.groups)
        width = drained_bytes(instruction.writes[0].dtype)
        return (drained_cycles(core, cycles, blocks, kinds, width), 0, 0)
    return (_vector_cycles(instruction, kernels[instruction.kernel], spec), 0, 0)


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
    constants: set[tuple[str, int]],
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
