"""Rules about which engine takes which instruction, and how large it may be."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stages.hardware.spec import Dma
from stages.plan.instructions import (
    NO_EVENT,
    NO_KERNEL,
    SRAM,
    Instruction,
    Opcode,
    Region,
)
from stages.plan.rules.facts import Facts, malformed
from stages.plan.rules.violation import Finding, Findings, say_region
from stages.plan.syntax import Form, form_of
from stages.recipe.kinds import Kind
from stages.tensors import Shape

TENSOR_CORE_OPCODES = (Opcode.TENSOR_CORE_GEMM, Opcode.TENSOR_CORE_CONV)
VECTOR_OPCODES = (Opcode.VECTOR, Opcode.ACTIVATION)
COMPUTE_OPCODES = (*TENSOR_CORE_OPCODES, *VECTOR_OPCODES, Opcode.HOST_CALL)
EVENT_OPCODES = (Opcode.SIGNAL_EVENT, Opcode.WAIT_EVENT)
_QUEUE_OF = (
    dict.fromkeys(TENSOR_CORE_OPCODES, "tensor_core")
    | dict.fromkeys(VECTOR_OPCODES, "vector")
    | {Opcode.HOST_CALL: "host"}
)
_COMPUTE_QUEUES = frozenset(_QUEUE_OF.values())
_DMA_QUEUE = re.compile(r"dma(0|[1-9][0-9]*)")


def target(facts: Facts) -> Findings:
    """The plan is for this device.

    The hardware that a plan names is the spec's.

    Cure: compile for this spec, or check against the other one.
    """
    if facts.plan.hardware != facts.spec.name:
        yield Finding(
            f"the plan is for {facts.plan.hardware}, the spec describes {facts.spec.name}",
            f"compile for {facts.spec.name}, or check against the spec of {facts.plan.hardware}",
        )


def queue(facts: Facts) -> Findings:
    """Every queue is an engine of the device, and takes the instructions that the engine runs.

    `DMA_COPY` goes to `dma0`, `dma1`, ... up to the spec's number of channels, `TENSOR_CORE_*` to
    `tensor_core`, `VECTOR` and `ACTIVATION` to `vector`, `HOST_CALL` to `host`. Events go to any
    queue, `THERMAL_BACKOFF` to any but a DMA channel. Each queue is listed once, and instructions
    are on listed queues.

    Cure: put the instruction on its engine's queue.
    """
    channels = facts.spec.dma.channels
    plan = facts.plan
    for name in sorted(set(plan.queues)):
        if plan.queues.count(name) > 1:
            yield Finding(f"queue {name} is listed twice", "list each queue once")
        found = _DMA_QUEUE.fullmatch(name)
        if found and int(found[1]) >= channels:
            yield Finding(
                f"queue {name} is a DMA channel that the device hasn't; it has {channels}",
                "use the channels from dma0 on, or mend `dma.channels` in the hardware spec",
            )
        elif not found and name not in _COMPUTE_QUEUES:
            yield Finding(
                f"queue {name} is no engine of the device",
                f"engines are {', '.join(sorted(_COMPUTE_QUEUES))}, dma0 .. dma{channels - 1}",
            )
    listed = frozenset(plan.queues)
    for index, instruction in enumerate(plan.instructions):
        if instruction.queue not in listed:
            yield Finding(
                f"instruction {index} is on queue {instruction.queue}, which isn't listed",
                "list the queue at the head of the plan",
                index,
            )
        elif not _legal(instruction):
            yield Finding(
                f"instruction {index}, {instruction.opcode}, is on queue {instruction.queue}",
                f"it runs on {_QUEUE_OF.get(instruction.opcode, 'a queue of its kind')}",
                index,
            )


def _legal(instruction: Instruction) -> bool:
    opcode, name = instruction.opcode, instruction.queue
    if opcode in EVENT_OPCODES:
        return True
    if opcode is Opcode.DMA_COPY:
        return _DMA_QUEUE.fullmatch(name) is not None
    if opcode is Opcode.THERMAL_BACKOFF:
        return name in _COMPUTE_QUEUES
    return name == _QUEUE_OF[opcode]


def operands(facts: Facts) -> Findings:
    """Every instruction has what its class needs and nothing else.

    `DMA_COPY` reads one region and writes one. Compute instructions name a kernel of the plan and
    write something; those of the tensor core say their contraction. `SIGNAL_EVENT` and
    `WAIT_EVENT` name an event, `THERMAL_BACKOFF` lasts some cycles; neither touches memory.

    Cure: give the instruction what is missing, take away what it doesn't use.
    """
    for index, instruction in enumerate(facts.plan.instructions):
        if fault := _operand_fault(instruction, len(facts.plan.kernels)):
            yield Finding(
                f"instruction {index}, {instruction.opcode}, {fault}",
                "give it what is missing, take away what it doesn't use",
                index,
            )


def _operand_fault(instruction: Instruction, kernels: int) -> str:
    opcode = instruction.opcode
    computes = opcode in COMPUTE_OPCODES
    if computes and not 0 <= instruction.kernel < kernels:
        return f"names kernel {instruction.kernel}; the plan has {kernels}"
    if not computes and instruction.kernel != NO_KERNEL:
        return "names a kernel"
    if (opcode in TENSOR_CORE_OPCODES) != (instruction.contraction is not None):
        return "has no contraction" if opcode in TENSOR_CORE_OPCODES else "has a contraction"
    if (opcode in EVENT_OPCODES) != (instruction.event != NO_EVENT):
        return "names no event" if opcode in EVENT_OPCODES else "names an event"
    if (opcode is Opcode.THERMAL_BACKOFF) != (instruction.cycles > 0):
        return f"lasts {instruction.cycles} cycles"
    regions = len(instruction.reads), len(instruction.writes)
    if opcode is Opcode.DMA_COPY:
        return "" if regions == (1, 1) else "needs one region to read and one to write"
    if computes:
        return "" if regions[1] else "writes nothing"
    return "touches memory" if regions != (0, 0) else ""


def transfer(facts: Facts) -> Findings:
    """A transfer copies equal things, within what one descriptor can say.

    Both sides have the same element type and the same extents in memory order. Its bytes keep to
    the spec's `dma.max_transfer`, and its nested loops, unbroken runs counted as one, to
    `dma.max_dimensions`.

    Cure: cut the transfer into several.
    """
    known: dict[tuple[Form, Form], list[tuple[str, str]]] = {}
    for index, instruction in enumerate(facts.plan.instructions):
        if instruction.opcode is not Opcode.DMA_COPY:
            continue
        sides = (*instruction.reads, *instruction.writes)
        if len(sides) != 2:
            continue
        source, sink = sides
        key = form_of(source), form_of(sink)
        if key not in known:
            broken = any(malformed(side, facts.memories) for side in sides)
            known[key] = [] if broken else list(_transfer_faults(source, sink, facts.spec.dma))
        for fault, hint in known[key]:
            said = f"instruction {index} copies {say_region(source)} to {say_region(sink)}"
            yield Finding(f"{said}{fault}", hint, index)


def _transfer_faults(source: Region, sink: Region, dma: Dma) -> Iterator[tuple[str, str]]:
    """What is wrong with a transfer between two forms, and the cure."""
    if (source.dtype, source.physical_shape) != (sink.dtype, sink.physical_shape):
        yield (
            f": extents in memory order are {list(source.physical_shape)} and "
            f"{list(sink.physical_shape)}",
            "both sides need one element type and the same extents in memory order",
        )
        return
    if source.size_bytes > dma.max_transfer_bytes:
        yield (
            f", {source.size_bytes} B; one transfer takes {dma.max_transfer_bytes} B",
            "cut the transfer into several",
        )
    loops = _loops(source.physical_shape, source, sink)
    if loops > dma.max_dimensions:
        yield (
            f" in {loops} nested loops; a descriptor has {dma.max_dimensions}",
            "cut the transfer into several, or lay the tensor out otherwise",
        )


def _loops(physical: Shape, source: Region, sink: Region) -> int:
    """Nested loops that a copy needs, neighbouring axes merged where both sides allow it."""
    loops = 1
    inner = (source.dtype.size_bytes, sink.dtype.size_bytes)
    for extent, *strides in reversed(
        list(zip(physical, source.strides, sink.strides, strict=True))
    ):
        if extent == 1:
            continue
        if tuple(strides) != inner:
            loops += 1
        inner = (strides[0] * extent, strides[1] * extent)
    return loops


def limits(facts: Facts) -> Findings:
    """A contraction keeps to the tensor core's limits for one instruction.

    Its m, n and k are at least 1 and at most the spec's `max_m`, `max_n` and `max_k`.

    Cure: smaller tiles.
    """
    core = facts.spec.tensor_core
    for index, instruction in enumerate(facts.plan.instructions):
        work = instruction.contraction
        if work is None:
            continue
        sizes = (("m", work.m, core.max_m), ("n", work.n, core.max_n), ("k", work.k, core.max_k))
        for name, value, most in sizes:
            if not 1 <= value <= most:
                yield Finding(
                    f"instruction {index} has {name}={value}; the tensor core takes 1 to {most}",
                    f"choose smaller tiles, or mend `max_{name}` in the hardware spec",
                    index,
                )


def reach(facts: Facts) -> Findings:
    """Engines touch only the memory that they can reach.

    The tensor core and the vector unit work on `sram`; only a gather's table may lie in `ddr`. The
    host and the DMA channels reach both.

    Cure: copy the operand to sram first.
    """
    plan = facts.plan
    for index, instruction in enumerate(plan.instructions):
        if instruction.opcode not in TENSOR_CORE_OPCODES + VECTOR_OPCODES:
            continue
        tables = _gather_tables(facts, instruction)
        for place, item in enumerate((*instruction.reads, *instruction.writes)):
            if item.memory != SRAM and item.memory in facts.memories and place not in tables:
                yield Finding(
                    f"instruction {index}, {instruction.opcode}, touches {say_region(item)}",
                    "copy the operand to sram first; only a gather's table may stay in ddr",
                    index,
                )


def _gather_tables(facts: Facts, instruction: Instruction) -> frozenset[int]:
    """The places of the regions read that a gather of the kernel takes as its table."""
    if not 0 <= instruction.kernel < len(facts.plan.kernels):
        return frozenset()
    if instruction.opcode not in VECTOR_OPCODES:
        return frozenset()
    kernel = facts.plan.kernels[instruction.kernel]
    names = {row.inputs[0] for row in kernel.operators if row.kind is Kind.GATHER and row.inputs}
    return frozenset(i for i, name in enumerate(kernel.parameters) if name in names)
