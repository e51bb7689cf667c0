"""Rules about kernels: types, contractions, support by the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod

from stages.plan.instructions import Contraction, Instruction, Kernel, Opcode, Plan, Region
from stages.plan.rules.engines import COMPUTE_OPCODES, TENSOR_CORE_OPCODES, VECTOR_OPCODES
from stages.plan.rules.facts import Facts
from stages.plan.rules.violation import Finding, Findings
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, TensorType

CONTRACTIONS = frozenset({Kind.CONV, Kind.CONV_TRANSPOSE, Kind.MATMUL})
VIEWS = frozenset({Kind.RESHAPE, Kind.IDENTITY})
"""Kinds that move no byte of a value held in an engine."""


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


def contraction(facts: Facts) -> Findings:
    """A tensor-core instruction says the contraction that its kernel computes.

    Its kernel holds one contraction: `matmul` for `TENSOR_CORE_GEMM`, `conv` or `conv_transpose`
    for `TENSOR_CORE_CONV`. For a convolution m is the output's pixels, batch included, n its
    channels in one group, k the taps times the input's channels in one group. For a matmul m, n
    and k are the operands' last extents; a batch that the right operand hasn't may be counted as
    groups or as rows. The element type is that of the operands in memory: 8-bit integers of either
    sign count as `i8`, and a quantised operand counts as it was before `dequantize`.

    Cure: work out m, n, k, groups and taps from the tile's own shapes.
    """
    for index, instruction, kernel in computing(facts.plan, *TENSOR_CORE_OPCODES):
        kinds = [row.kind for row in kernel.operators if row.kind in CONTRACTIONS]
        gemm = instruction.opcode is Opcode.TENSOR_CORE_GEMM
        if len(kinds) != 1 or (kinds[0] is Kind.MATMUL) != gemm:
            yield Finding(
                f"instruction {index}, {instruction.opcode}, runs kernel {kernel.name}, which "
                f"holds {' and '.join(kinds) if kinds else 'no contraction'}",
                "a GEMM needs one matmul, a CONV one conv or conv_transpose",
                index,
            )
            continue
        work = instruction.contraction
        if work is not None and (fault := _work_fault(kernel, work)):
            yield Finding(
                f"instruction {index}, kernel {kernel.name}, {fault}",
                "work out m, n, k, groups and taps from the tile's own shapes",
                index,
            )


def _work_fault(kernel: Kernel, work: Contraction) -> str:
    operator = next(row for row in kernel.operators if row.kind in CONTRACTIONS)
    names = (*operator.inputs[:2], *operator.outputs[:1])
    if len(names) != 3 or any(name not in kernel.types for name in names):
        return ""  # `kernel_form` reports it
    left, right, result = (kernel.types[name] for name in names)
    said = (work.m, work.n, work.k, work.groups, work.taps)
    possible = (
        _matmul_works(left, right, result)
        if operator.kind is Kind.MATMUL
        else _convolution_works(operator, left, right, result)
    )
    if said not in possible:
        wanted = " or ".join(_say_work(*numbers) for numbers in possible)
        return f"says {_say_work(*said)}; its shapes make {wanted}"
    stored = [stored_dtype(kernel, name) for name in operator.inputs[:2]]
    if work.dtype not in _multiplied(stored):
        return f"says {work.dtype}; its operands are {' and '.join(stored)}"
    return ""


def _say_work(m: int, n: int, k: int, groups: int, taps: int) -> str:
    return f"m={m} n={n} k={k} groups={groups} taps={taps}"


Work = tuple[int, int, int, int, int]


def _convolution_works(
    operator: Operator, data: TensorType, weights: TensorType, result: TensorType
) -> list[Work]:
    groups = operator.integer("group")
    taps = prod(weights.shape[2:])
    pixels = result.shape[0] * prod(result.shape[2:])
    return [(pixels, result.shape[1] // groups, taps * (data.shape[1] // groups), groups, taps)]


def _matmul_works(left: TensorType, right: TensorType, result: TensorType) -> list[Work]:
    k = left.shape[-1]
    n = right.shape[-1] if right.rank > 1 else 1
    products = result.element_count
    batch = prod(right.shape[:-2])
    if batch > 1:
        groups = products // n // (left.shape[-2] if left.rank > 1 else 1)
        return [(products // n // groups, n, k, groups, 1)]
    rows = left.shape[-2] if left.rank > 1 else 1
    total = products // n
    works = [(total, n, k, 1, 1), (rows, n, k, total // rows if rows else 1, 1)]
    return works[:1] if works[0] == works[1] else works


def stored_dtype(kernel: Kernel, name: str) -> DType:
    """The element type of a kernel's value as memory holds it: before `dequantize` and views."""
    makers = {output: row for row in kernel.operators for output in row.outputs}
    while (maker := makers.get(name)) is not None and maker.inputs:
        if maker.kind is not Kind.DEQUANTIZE and maker.kind not in VIEWS:
            break
        name = maker.inputs[0]
    return kernel.types[name].dtype if name in kernel.types else DType.F32


def _multiplied(stored: list[DType]) -> set[DType]:
    """The types that a contraction of these operands may be counted in."""
    integers = [dtype for dtype in stored if not dtype.is_float]
    if len(integers) < len(stored):
        return {dtype for dtype in stored if dtype.is_float}
    if all(dtype.size_bytes == 1 for dtype in integers):
        return {DType.I8}
    return {max(integers, key=lambda dtype: dtype.size_bytes)}


def support(facts: Facts) -> Findings:
    """Engines run only operators that the spec lists for them, on types that it lists.

    The contraction of a tensor-core instruction and each operator of a vector kernel is in the
    spec's `operators` with that engine, for the element type of its data in memory, and within
    the entry's limits. The tensor core multiplies the contraction's type.

    Cure: place the operator on the host, or extend `operators` in the hardware spec.
    """
    rates = facts.spec.tensor_core.macs_per_cycle
    for index, instruction, kernel in computing(facts.plan, *TENSOR_CORE_OPCODES):
        work = instruction.contraction
        if work is not None and work.dtype not in rates:
            yield Finding(
                f"instruction {index}, kernel {kernel.name}, multiplies {work.dtype}; the tensor "
                f"core multiplies {', '.join(rates)}",
                "compute it elsewhere, or in a type that the tensor core has",
                index,
            )
    reported: set[tuple[int, str]] = set()
    for index, instruction, kernel in computing(facts.plan, *TENSOR_CORE_OPCODES, *VECTOR_OPCODES):
        engine = "tensor_core" if instruction.opcode in TENSOR_CORE_OPCODES else "vector"
        if (instruction.kernel, engine) in reported:
            continue
        reported.add((instruction.kernel, engine))
        for operator in kernel.operators:
            relevant = operator.kind in CONTRACTIONS or engine == "vector"
            if relevant and (fault := _support_fault(facts, engine, kernel, operator)):
                yield Finding(
                    f"instruction {index}, kernel {kernel.name}: {fault}",
                    f"place it on the host, or extend `operators.{operator.kind}` in the "
                    "hardware spec",
                    index,
                )


def _support_fault(facts: Facts, engine: str, kernel: Kernel, operator: Operator) -> str:
    kind = operator.kind
    if kind in VIEWS:
        return ""
    entry = facts.spec.operators.get(kind)
    if entry is None or entry.engine != engine:
        listed = "isn't in the spec's operator list" if entry is None else f"is {entry.engine}'s"
        return f"{kind} on {engine}: {kind} {listed}"
    data = operator.inputs[1 if kind is Kind.WHERE else 0] if operator.inputs else ""
    if data in kernel.parameters:
        dtype = stored_dtype(kernel, data)
        if dtype not in entry.dtypes:
            return f"{kind} of {dtype}: {engine} takes {', '.join(sorted(entry.dtypes))}"
    for fact, value in _limited_facts(kernel, operator):
        low, high = entry.limits.get(fact, (value, value))
        if not low <= value <= high:
            return f"{kind} has {fact} {value}: {engine} takes {low} to {high}"
    return ""


def _limited_facts(kernel: Kernel, operator: Operator) -> Iterator[tuple[str, int]]:
    """The facts of an operator that cutting it into tiles doesn't change."""
    attributes = operator.attributes
    for fact, attribute in (("stride", "strides"), ("dilation", "dilations"), ("kernel", "kernel")):
        if attribute in attributes:
            yield from ((fact, value) for value in operator.integers(attribute))
    if operator.kind in (Kind.CONV, Kind.CONV_TRANSPOSE):
        weights = kernel.types.get(operator.inputs[1])
        yield from (("kernel", extent) for extent in (weights.shape[2:] if weights else ()))


def epilogue(facts: Facts) -> Findings:
    """On the tensor core, what isn't the contraction is free, so it must be what the core does
    as results drain.

    Operators beside the contraction are in the spec's `tensor_core.output_stage`, or are a
    `dequantize` of what the instruction reads, or views.

    Cure: run the operator on the vector unit, or add it to the output stage in the spec.
    """
    stage = facts.spec.tensor_core.output_stage
    reported: set[int] = set()
    for index, instruction, kernel in computing(facts.plan, *TENSOR_CORE_OPCODES):
        if instruction.kernel in reported:
            continue
        reported.add(instruction.kernel)
        for operator in kernel.operators:
            kind = operator.kind
            reads = bool(operator.inputs) and operator.inputs[0] in kernel.parameters
            if kind in CONTRACTIONS or kind in VIEWS or kind in stage:
                continue
            if kind is not Kind.DEQUANTIZE or not reads:
                yield Finding(
                    f"instruction {index}, kernel {kernel.name}: {kind} isn't in the tensor "
                    f"core's output stage, {', '.join(sorted(stage)) or 'which is empty'}",
                    "run it on the vector unit, or add it to `tensor_core.output_stage`",
                    index,
                )
