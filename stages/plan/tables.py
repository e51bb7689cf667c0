"""What a vector instruction takes of tables that stay in DDR: the elements that it gathers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from stages.plan.instructions import DDR, Instruction, Kernel, Opcode, Region
from stages.recipe.kinds import Kind
from stages.recipe.touched import read_elements

_VECTOR = (Opcode.VECTOR, Opcode.ACTIVATION)


@dataclass(frozen=True, slots=True)
class TableRead:
    """Bytes taken of one table, in runs of `run_bytes` each."""

    size_bytes: int
    run_bytes: int


def table_reads(instruction: Instruction, kernel: Kernel) -> tuple[TableRead, ...]:
    """For each region of DDR that a compute instruction reads, what it takes of it: of a gather's
    table the elements that are picked, each in its own type; of any other all."""
    return tuple(
        _taken(name, region, kernel)
        for name, region in zip(kernel.parameters, instruction.reads, strict=True)
        if region.memory == DDR
    )


def ddr_read_bytes(instruction: Instruction, kernels: tuple[Kernel, ...]) -> int:
    """Bytes that a transfer or a vector instruction reads from DDR."""
    if instruction.opcode in _VECTOR:
        if all(region.memory != DDR for region in instruction.reads):
            return 0
        return sum(
            table.size_bytes for table in table_reads(instruction, kernels[instruction.kernel])
        )
    return sum(region.size_bytes for region in instruction.reads if region.memory == DDR)


def _taken(name: str, region: Region, kernel: Kernel) -> TableRead:
    gathers = [
        operator
        for operator in kernel.operators
        if operator.kind is Kind.GATHER and operator.inputs[0] == name
    ]
    if not gathers:
        return TableRead(region.size_bytes, region.contiguous_bytes)
    picked = run = 0
    for gather in gathers:
        operands = [kernel.types[value] for value in gather.inputs]
        picked += read_elements(gather, 0, operands, [kernel.types[gather.outputs[0]]])
        rows = prod(region.shape[: gather.integer("axis") + 1])
        run = max(run, region.size_bytes // max(1, rows))
    size_bytes = min(region.size_bytes, picked * region.dtype.size_bytes)
    return TableRead(size_bytes, max(1, min(run, region.contiguous_bytes, size_bytes)))
