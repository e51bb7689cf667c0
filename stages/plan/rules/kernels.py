"""Rules about kernels: form, shapes, types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from stages.plan.instructions import Instruction, Kernel, Opcode, Plan, Region
from stages.plan.rules.engines import COMPUTE_OPCODES
from stages.plan.rules.facts import Facts
from stages.plan.rules.violation import Finding, Findings
from stages.recipe.graph import Operator
from stages.recipe.operators import IllegalOperatorError, agrees, infer
from stages.tensors import TensorType


def computing(plan: Plan, *opcodes: Opcode) -> Iterator[tuple[int, Instruction, Kernel]]:
    """The instructions of these classes that name a kernel of the plan."""
    for index, instruction in enumerate(plan.instructions):
        if instruction.opcode in opcodes and 0 <= instruction.kernel < len(plan.kernels):
            yield index, instruction, plan.kernels[instruction.kernel]


def kernel_form(facts: Facts) -> Findings:
    """A kernel is a chain of operators in which every value is made once, before it's used.

    Parameters and results of operators have names of their own, each has a type, each operand is
    a parameter or an earlier result, and each result of the kernel is made by one of its operators.

    Cure: mend the kernel at the head of the plan.
    """
    for number, kernel in enumerate(facts.plan.kernels):
        for fault in _form_faults(kernel):
            yield Finding(f"kernel {number}, {kernel.name}: {fault}", "mend the kernel")


def _form_faults(kernel: Kernel) -> Iterator[str]:
    counts = Counter(kernel.parameters)
    known = set(kernel.parameters)
    for operator in kernel.operators:
        for name in operator.operands:
            if name not in known:
                yield f"%{name} is used by {operator.kind} before it's made"
        known.update(operator.outputs)
        counts.update(name for name in operator.outputs if name)
    for name, count in counts.items():
        if count > 1:
            yield f"%{name} is made {count} times"
        if name not in kernel.types:
            yield f"%{name} has no type"
    for name in kernel.results:
        if name not in known:
            yield f"its result %{name} is made by no operator"


def kernel_shapes(facts: Facts) -> Findings:
    """Every operator of a kernel is legal, and its results have the shapes that it makes.

    Operands, attributes and shapes obey the recipe's operator table. Which float type a value has
    inside a kernel is free.

    Cure: give the operator the attributes of its tile, for example the padding that falls on it.
    """
    for number, kernel in enumerate(facts.plan.kernels):
        for operator in kernel.operators:
            if fault := operator_fault(kernel, operator):
                yield Finding(
                    f"kernel {number}, {kernel.name}: {operator.kind} {fault}",
                    "give the operator the attributes of its tile",
                )


def operator_fault(kernel: Kernel, operator: Operator) -> str:
    """How an operator of a kernel breaks the operator table; nothing where its types are missing,
    which `kernel_form` reports."""
    if any(name not in kernel.types for name in (*operator.operands, *operator.outputs)):
        return ""
    operands = [kernel.types[name] if name else None for name in operator.inputs]
    declared = [kernel.types[name] for name in operator.outputs]
    try:
        inferred = infer(operator, operands, declared)
    except IllegalOperatorError as error:
        return f"is illegal: {error.problem}"
    if len(inferred) != len(declared):
        return f"makes {len(inferred)} results, and has names for {len(declared)}"
    for name, says, makes in zip(operator.outputs, declared, inferred, strict=True):
        if not agrees(says, makes):
            return f"makes {makes}, but %{name} is {says}"
    return ""


def kernel_types(facts: Facts) -> Findings:
    """The regions of an instruction have the types of its kernel's parameters and results.

    As many regions are read as the kernel has parameters, as many written as it has results, and
    each has the element type and the logical shape of its value.

    Cure: give the instruction the kernel of its own tile.
    """
    for index, instruction, kernel in computing(facts.plan, *COMPUTE_OPCODES):
        sides = (
            ("reads", instruction.reads, kernel.parameters),
            ("writes", instruction.writes, kernel.results),
        )
        for verb, regions, names in sides:
            for fault in _type_faults(verb, regions, names, kernel):
                yield Finding(
                    f"instruction {index}, kernel {kernel.name}, {fault}",
                    "give the instruction the kernel of its own tile",
                    index,
                )


def _type_faults(
    verb: str, regions: tuple[Region, ...], names: tuple[str, ...], kernel: Kernel
) -> Iterator[str]:
    if len(regions) != len(names):
        yield f"{verb} {len(regions)} regions; the kernel has {len(names)}"
        return
    for region, name in zip(regions, names, strict=True):
        wanted = kernel.types.get(name)
        if wanted is not None and (region.dtype, region.shape) != (wanted.dtype, wanted.shape):
            held = TensorType(region.dtype, region.shape)
            yield f"{verb} {held} at {region.memory}+{region.address:#06x}, but %{name} is {wanted}"
