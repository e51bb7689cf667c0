"""What a host call costs: its arithmetic, the bytes that it touches, and those that cross to it.

An operator touches what it reads of its operands (`recipe/touched.py`) and its results; a reshape
touches nothing. A call's operands cross the link whole where the host has a memory of its own; in
a shared one the host reads in place, so only what it touches counts. Constants lie with the host
already. Results cross in either case.
"""

from __future__ import annotations

from collections.abc import Mapping

from stages.hardware.cost import host_cycles
from stages.hardware.spec import HardwareSpec, HostMemory
from stages.plan.instructions import Instruction, Kernel
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.operators import flops
from stages.recipe.touched import RENAMES, read_elements
from stages.tensors import TensorType


def host_call_cycles(
    instruction: Instruction,
    kernel: Kernel,
    constants: frozenset[tuple[str, int]],
    spec: HardwareSpec,
) -> int:
    """Cycles of a host call; `constants`: memory and address of each constant of the plan."""
    operations = sum(operator_flops(operator, kernel.types) for operator in kernel.operators)
    moved = sum(touched_bytes(operator, kernel.types) for operator in kernel.operators)
    crossing = [
        (name, region)
        for name, region in zip(kernel.parameters, instruction.reads, strict=True)
        if (region.memory, region.address) not in constants
    ]
    link = sum(region.size_bytes for region in instruction.writes)
    for name, region in crossing:
        whole = region.size_bytes
        shared = spec.host.memory is HostMemory.SHARED
        link += min(whole, read_in_place(name, kernel)) if shared else whole
    return host_cycles(spec, len(kernel.operators), operations, moved, link)


def read_in_place(parameter: str, kernel: Kernel) -> int:
    """Bytes of a parameter that the operators of a call read, through renames too."""
    names = {parameter}
    size_bytes = 0
    for operator in kernel.operators:
        for place, name in enumerate(operator.inputs):
            if name not in names:
                continue
            if operator.kind in RENAMES:
                names.update(operator.outputs)
            else:
                size_bytes += _read_bytes(operator, place, kernel.types)
    if names & set(kernel.results):
        return kernel.types[parameter].size_bytes
    return size_bytes


def touched_bytes(operator: Operator, types: Mapping[str, TensorType]) -> int:
    """Bytes that one operator reads of its operands and writes of its results."""
    if operator.kind in RENAMES:
        return 0
    read = sum(_read_bytes(operator, place, types) for place in range(len(operator.inputs)))
    return read + sum(types[name].size_bytes for name in operator.outputs)


def _read_bytes(operator: Operator, place: int, types: Mapping[str, TensorType]) -> int:
    name = operator.inputs[place]
    if not name:
        return 0
    return _read(operator, place, types) * types[name].dtype.size_bytes


def _read(operator: Operator, place: int, types: Mapping[str, TensorType]) -> int:
    operands = [types[name] if name else None for name in operator.inputs]
    return read_elements(operator, place, operands, [types[name] for name in operator.outputs])


def operator_flops(operator: Operator, types: Mapping[str, TensorType]) -> int:
    """Arithmetic of one operator. Of a `host_call` only what it reads and its results are known:
    one operation for each element of either."""
    results = [types[name] for name in operator.outputs if name]
    if operator.kind is Kind.HOST_CALL:
        read = sum(_read(operator, place, types) for place in range(len(operator.inputs)))
        return read + sum(type_.element_count for type_ in results)
    operands = [types[name] if name else None for name in operator.inputs]
    return flops(operator, operands, [types[name] for name in operator.outputs])
