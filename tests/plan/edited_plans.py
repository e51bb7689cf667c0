"""Edits of the legal plan, and of the device that it is for."""

from __future__ import annotations

from dataclasses import replace

from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import (
    DDR,
    SRAM,
    Binding,
    Buffer,
    Instruction,
    Kernel,
    Opcode,
    Plan,
)
from stages.recipe.decisions import Lifetime
from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, TensorType
from tests.plan.sample_plan import (
    NHWC,
    OUT_DDR,
    ROWS,
    X_DDR,
    legal_plan,
    region,
    rows,
    small_spec,
)

Case = tuple[Plan, HardwareSpec]
CONV0, CONV1, SIGMOID, GATHER, STORE, BACKOFF, HOST = 6, 8, 11, 16, 19, 23, 25


def change(index: int, **fields: object) -> Plan:
    """The legal plan with one instruction changed."""
    plan = legal_plan()
    program = list(plan.instructions)
    program[index] = replace(program[index], **fields)  # type: ignore[arg-type]
    return replace(plan, instructions=tuple(program))


def append(*more: Instruction) -> Plan:
    """The legal plan with more at its end; what lived to the end still does."""
    plan = legal_plan()
    end = len(plan.instructions)
    longer = end + len(more)
    buffers = tuple(
        replace(item, stop=longer) if item.stop == end else item for item in plan.buffers
    )
    return replace(plan, buffers=buffers, instructions=(*plan.instructions, *more))


def rebuffer(name: str, **fields: object) -> Plan:
    """The legal plan with one buffer changed."""
    plan = legal_plan()
    buffers = tuple(
        replace(item, **fields) if item.name == name else item  # type: ignore[arg-type]
        for item in plan.buffers
    )
    return replace(plan, buffers=buffers)


def ghost(**fields: object) -> Plan:
    """The legal plan with one more buffer, in free SRAM unless the fields say otherwise."""
    plan = legal_plan()
    buffer = Buffer("ghost", SRAM, 0x8000, 64, Lifetime.SCOPED, 2, 4)
    more = replace(buffer, **fields)  # type: ignore[arg-type]
    return replace(plan, buffers=(*plan.buffers, more))


def rekernel(index: int, **fields: object) -> Plan:
    """The legal plan with one kernel changed."""
    plan = legal_plan()
    kernels = list(plan.kernels)
    kernels[index] = replace(kernels[index], **fields)  # type: ignore[arg-type]
    return replace(plan, kernels=tuple(kernels))


def copy(queue: str, source: object, sink: object) -> Instruction:
    """A transfer."""
    return Instruction(Opcode.DMA_COPY, queue, "", (source,), (sink,))  # type: ignore[arg-type]


def signal(queue: str, event: int) -> Instruction:
    """A signal."""
    return Instruction(Opcode.SIGNAL_EVENT, queue, event=event)


def wait(queue: str, event: int) -> Instruction:
    """A wait."""
    return Instruction(Opcode.WAIT_EVENT, queue, event=event)


def moved_rows(offset: int) -> Plan:
    """The gathered rows in SRAM, and their buffer, moved by some bytes."""
    moved = replace(ROWS, address=ROWS.address + offset)
    plan = rebuffer("embed.rows", address=moved.address)
    program = list(plan.instructions)
    program[GATHER] = replace(program[GATHER], writes=(moved,))
    program[22] = replace(program[22], reads=(moved,))
    return replace(plan, instructions=tuple(program))


def swapped(one: int, other: int) -> Plan:
    """Two instructions change places."""
    plan = legal_plan()
    program = list(plan.instructions)
    program[one], program[other] = program[other], program[one]
    return replace(plan, instructions=tuple(program))


def column(start: int, stop: int) -> object:
    """Columns of x: rows of bytes with gaps between them."""
    box = region(DDR, X_DDR.address + start * 16, (1, 8, 8, stop - start), NHWC)
    return replace(box, strides=X_DDR.strides)


def restrided(axis: int, stride: int) -> Plan:
    """x copied from a view with another stride, to a place of its own."""
    shape = (1, 8, 2, 2) if axis else (2, 8, 2, 2)
    strides = list(replace(X_DDR, shape=shape).strides)
    strides[axis] = stride
    source = replace(X_DDR, shape=shape, strides=tuple(strides))
    sink = region(SRAM, 0x4000, shape, NHWC)
    plan = append(copy("dma0", source, sink))
    buffer = Buffer("free", SRAM, 0x4000, sink.size_bytes, Lifetime.SCOPED, 26, 27)
    return replace(plan, buffers=(*plan.buffers, buffer))


def written_twice() -> Plan:
    """x copied to a place where its two halves share their bytes."""
    plan = restrided(0, 64)
    *before, last = plan.instructions
    sink = last.writes[0]
    crowded = replace(sink, strides=(0, *sink.strides[1:]))
    return replace(plan, instructions=(*before, replace(last, writes=(crowded,))))


def tc(**fields: object) -> HardwareSpec:
    """The spec with another tensor core."""
    spec = small_spec()
    return replace(spec, tensor_core=replace(spec.tensor_core, **fields))  # type: ignore[arg-type]


def dma(**fields: object) -> HardwareSpec:
    """The spec with other DMA channels."""
    spec = small_spec()
    return replace(spec, dma=replace(spec.dma, **fields))  # type: ignore[arg-type]


def without(kind: str) -> HardwareSpec:
    """The spec without an operator."""
    spec = small_spec()
    return replace(spec, operators={k: v for k, v in spec.operators.items() if k != kind})


def limited(kind: str, **fields: object) -> HardwareSpec:
    """The spec with another entry for an operator."""
    spec = small_spec()
    entry = replace(spec.operators[kind], **fields)  # type: ignore[arg-type]
    return replace(spec, operators={**spec.operators, kind: entry})


def bind_constant(address: int) -> Plan:
    """One more constant inside the buffer of the first."""
    plan = legal_plan()
    more = Binding("more", region(DDR, address, (8,)))
    return replace(plan, constants=(*plan.constants, more))


def free_copy(source: object, address: int, memory: str = SRAM) -> Plan:
    """x copied to a place of its own, in a buffer of its own."""
    sink = region(memory, address, (1, 8, 8, 8), NHWC)
    plan = append(copy("dma0", source, sink))
    buffer = Buffer("free", memory, address, sink.size_bytes, Lifetime.SCOPED, 26, 27)
    return replace(plan, buffers=(*plan.buffers, buffer))


def columns_copy() -> Plan:
    """Four of the eight columns of x, copied to a place of their own."""
    sink = region(SRAM, 0x4000, (1, 8, 8, 4), NHWC)
    buffer = Buffer("columns", SRAM, 0x4000, sink.size_bytes, Lifetime.SCOPED, 26, 27)
    plan = append(copy("dma0", column(0, 4), sink))
    return replace(plan, buffers=(*plan.buffers, buffer))


def shifted_copy() -> Plan:
    """The free rows of the output are moved down by one, each over the next."""
    done = (signal("host", 9), wait("dma0", 9))
    return append(*done, copy("dma0", rows(OUT_DDR, 0, 4), rows(OUT_DDR, 1, 5)))


def doubled_output() -> Plan:
    """The last host call gives its result twice, at the same place."""
    plan = rekernel(4, results=("q", "q"))
    program = list(plan.instructions)
    program[HOST] = replace(program[HOST], writes=(OUT_DDR, OUT_DDR))
    return replace(plan, instructions=tuple(program))


def over_itself(kind: Kind, attributes: dict[str, Attribute], **moved: int) -> Plan:
    """At the end the vector unit reads a buffer of its own and writes the result over it; `moved`:
    where the result lies instead."""
    whole = region(SRAM, 0x4000, (1, 8, 8, 8), NHWC)
    tensor = TensorType(DType.F16, whole.shape)
    kernel = Kernel(
        "over", ("a",), ("b",), (Operator("over", kind, ("a",), ("b",), attributes),),
        {"a": tensor, "b": tensor},
    )  # fmt: skip
    step = Instruction(
        Opcode.VECTOR,
        "vector",
        "over",
        (whole,),
        (replace(whole, **moved),),  # type: ignore[arg-type]
        kernel=len(legal_plan().kernels),
    )
    bring = copy("dma0", X_DDR, whole)
    plan = append(bring, signal("dma0", 9), wait("vector", 9), step)
    buffer = Buffer("over", SRAM, 0x4000, whole.size_bytes + 64, Lifetime.SCOPED, 26, 30)
    return replace(plan, kernels=(*plan.kernels, kernel), buffers=(*plan.buffers, buffer))
