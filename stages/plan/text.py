"""The text form of a plan: `parse_plan(print_plan(plan)) == plan`.

    plan for npu_tiny
    queues tensor_core vector host dma0
    kernel 0 conv1
      input %x : f16[1,8,6,6]
      input %w : f16[8,8,3,3]
      %y : f16[1,8,4,4] = conv(%x, %w) {group=1, ...}  # conv1
      output %y
    buffer %conv1.w ddr+0x0000 size 1152 weights live [0, 40)
    constant %conv1.w ddr+0x0000 f16[8,8,3,3]
    input %x ddr+0x2000 f16[1,8,6,6]
    output %y ddr+0x3000 f16[1,8,4,4]
    program
    group conv1
         0 dma0        DMA_COPY ddr+0x0000 -> sram+0x0400, 1152 B f16[8,8,3,3]  # conv1.w
         1 dma0        SIGNAL_EVENT 0
         2 tensor_core WAIT_EVENT 0
         3 tensor_core TENSOR_CORE_CONV conv1@0 (sram+0x0000 ..., ...) -> (...) m=16 n=8 k=72 ...

A region is memory, address, type, layout unless row-major, and `by [strides]` in bytes unless
dense. A copy whose sides differ in more than place and strides prints both regions in brackets.
The number before an instruction is for the reader: parsing goes by the order of the lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from stages.plan.instructions import Binding, Buffer, Plan
from stages.plan.kernel_text import Line, print_kernel, read_kernel
from stages.plan.program_text import ProgramReader, print_program
from stages.plan.syntax import (
    NAME,
    PLACE,
    PlanTextError,
    print_name,
    print_region,
    read_name,
    read_region,
)
from stages.recipe.decisions import Lifetime

_BUFFER = re.compile(rf"buffer %({NAME}) {PLACE} size (-?\d+) ([a-z_]+) live \[(-?\d+), (-?\d+)\)")
_BINDING = re.compile(rf"(constant|input|output) %({NAME}) (.+)")
_PLAN = re.compile(rf"plan for ({NAME})")
_QUEUES = re.compile(rf"queues((?: {NAME})*)")
_QUEUE = re.compile(NAME)
_BINDING_KINDS = ("constant", "input", "output")


def print_plan(plan: Plan) -> str:
    """The plan as text, each line ended."""
    lines = [*print_header(plan), "program"]
    lines.extend(print_program(plan.instructions, plan.kernels, plan.queues))
    lines.append("")
    return "\n".join(lines)


def print_header(plan: Plan) -> Iterator[str]:
    """The lines before the program."""
    yield f"plan for {print_name(plan.hardware)}"
    yield "".join(["queues", *(f" {print_name(queue)}" for queue in plan.queues)])
    for index, kernel in enumerate(plan.kernels):
        yield from print_kernel(index, kernel)
    for buffer in plan.buffers:
        yield (
            f"buffer %{print_name(buffer.name)} "
            f"{print_name(buffer.memory)}+{buffer.address:#06x} size {buffer.size_bytes} "
            f"{buffer.lifetime} live [{buffer.start}, {buffer.stop})"
        )
    bindings = (plan.constants, plan.inputs, plan.outputs)
    for kind, group in zip(_BINDING_KINDS, bindings, strict=True):
        for binding in group:
            yield f"{kind} %{print_name(binding.name)} {print_region(binding.region)}"


def parse_plan(text: str) -> Plan:
    """The plan that a text says.

    Empty lines and lines that begin with `#` say nothing.

    Raises:
        PlanTextError: a line isn't in the form; the error shows it with its number.
    """
    lines = text.split("\n")
    program = _program_line(lines)
    header = parse_header(lines[:program])
    reader = ProgramReader(header.kernels)
    instructions = []
    for number, line in enumerate(lines[program + 1 :], program + 2):
        if not line or line.startswith("#") or line.isspace():
            continue
        if (instruction := reader.read(line, number)) is not None:
            instructions.append(instruction)
    return Plan(
        header.hardware,
        header.queues,
        header.kernels,
        header.buffers,
        header.inputs,
        header.outputs,
        header.constants,
        tuple(instructions),
    )


def _program_line(lines: Sequence[str]) -> int:
    try:
        return lines.index("program")
    except ValueError:
        last = lines[-1] if lines else ""
        raise PlanTextError("the line `program` is missing", len(lines), last) from None


def parse_header(lines: Sequence[str]) -> Plan:
    """A plan without instructions from the lines before the program.

    Raises:
        PlanTextError: a line isn't in the form.
    """
    hardware: str | None = None
    queues: tuple[str, ...] = ()
    kernels: list[list[Line]] = []
    buffers: list[Buffer] = []
    bindings: dict[str, list[Binding]] = {kind: [] for kind in _BINDING_KINDS}
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#") or line.isspace():
            continue
        if line.startswith("  ") and kernels:
            kernels[-1].append((number, line))
        elif line.startswith("kernel "):
            kernels.append([(number, line)])
        elif line.startswith("buffer "):
            buffers.append(_read_buffer(line, number))
        elif (match := _BINDING.fullmatch(line)) is not None:
            bindings[match[1]].append(_read_binding(match, line, number))
        elif (match := _PLAN.fullmatch(line)) is not None:
            hardware = read_name(match[1])
        elif (match := _QUEUES.fullmatch(line)) is not None:
            queues = tuple(read_name(found[0]) for found in _QUEUE.finditer(match[1]))
        else:
            raise PlanTextError("this is no line of a plan's header", number, line)
    if hardware is None:
        raise PlanTextError("the line `plan for HARDWARE` is missing", 1, lines[0] if lines else "")
    return Plan(
        hardware,
        queues,
        tuple(read_kernel(index, block) for index, block in enumerate(kernels)),
        tuple(buffers),
        tuple(bindings["input"]),
        tuple(bindings["output"]),
        tuple(bindings["constant"]),
        (),
    )


def _read_buffer(line: str, number: int) -> Buffer:
    match = _BUFFER.fullmatch(line)
    if match is None:
        raise PlanTextError("this buffer isn't in the form", number, line)
    name, memory, address, size, lifetime, start, stop = match.groups()
    try:
        kind = Lifetime(lifetime)
    except ValueError:
        raise PlanTextError(f"`{lifetime}` is no lifetime", number, line) from None
    place = int(address, 16)
    return Buffer(read_name(name), read_name(memory), place, int(size), kind, int(start), int(stop))


def _read_binding(match: re.Match[str], line: str, number: int) -> Binding:
    try:
        return Binding(read_name(match[2]), read_region(match[3]))
    except ValueError as error:
        raise PlanTextError(str(error), number, line) from error
