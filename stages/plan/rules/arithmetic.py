"""Rules about arithmetic: contractions, operators that an engine runs, what is free on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from stages.plan.instructions import Contraction, Kernel, Opcode
from stages.plan.rules.engines import TENSOR_CORE_OPCODES, VECTOR_OPCODES
from stages.plan.rules.facts import Facts
from stages.plan.rules.kernels import computing, operator_fault
from stages.plan.rules.violation import Finding, Findings
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, TensorType

CONTRACTIONS = frozenset({Kind.CONV, Kind.CONV_TRANSPOSE, Kind.MATMUL})
VIEWS = frozenset({Kind.RESHAPE, Kind.IDENTITY})
"""Kinds that move no byte of a value held in an engine."""


def contraction(facts: Facts) -> Findings:
    """A tensor-core instruction says the contraction that its kernel computes.

    Its kernel holds one contraction: `matmul` for `TENSOR_CORE_GEMM`, `conv` or `conv_transpose`
    for `TENSOR_CORE_CONV`.

    - For a convolution, m is the output's pixels, batch included, n its channels in one group, k
      the taps times the input's channels in one group.
    - A transposed convolution is one product for each input pixel: n is the taps times the
      output's channels in one group, k the input's channels in one group, with one tap.
    - For a matmul, m, n and k are the operands' last extents; a batch that the right operand
      hasn't may be counted as groups or as rows.
    - The element type is that of the operands in memory: a quantised operand counts as it was
      before `dequantize`, 8-bit integers of either sign count alike, and one float operand makes
      the contraction a float one.

    Cure: work out m, n, k, groups and taps from the tile's own shapes.
    """
    known: dict[int, Possible | str] = {}
    for index, instruction, kernel in computing(facts.plan, *TENSOR_CORE_OPCODES):
        number, work = instruction.kernel, instruction.contraction
        if number not in known:
            known[number] = _possible(kernel)
        possible = known[number]
        if isinstance(possible, str):
            fault = possible
        elif possible.is_matmul != (instruction.opcode is Opcode.TENSOR_CORE_GEMM):
            fault = f"runs a {'matmul' if possible.is_matmul else 'convolution'}"
        else:
            fault = possible.fault(work) if work is not None else ""
        if fault:
            yield Finding(
                f"instruction {index}, {instruction.opcode}, kernel {kernel.name}, {fault}",
                "work out m, n, k, groups and taps from the tile's own shapes",
                index,
            )


Work = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Possible:
    """What an instruction may say of a kernel's contraction."""

    is_matmul: bool
    works: tuple[Work, ...]
    dtypes: frozenset[DType]

    def fault(self, work: Contraction) -> str:
        """How what it says differs; nothing where it doesn't."""
        said = (work.m, work.n, work.k, work.groups, work.taps)
        if self.works and said not in self.works:
            wanted = " or ".join(_say_work(*numbers) for numbers in self.works)
            return f"says {_say_work(*said)}; its shapes make {wanted}"
        if self.works and work.dtype not in self.dtypes:
            return f"says {work.dtype}; its operands are {' or '.join(sorted(self.dtypes))}"
        return ""


def _possible(kernel: Kernel) -> Possible | str:
    """What may be said of a kernel's one contraction, or why nothing may."""
    contractions = [row for row in kernel.operators if row.kind in CONTRACTIONS]
    if len(contractions) != 1:
        kinds = " and ".join(row.kind for row in contractions)
        return f"holds {kinds or 'no contraction'}; the tensor core needs one"
    operator = contractions[0]
    is_matmul = operator.kind is Kind.MATMUL
    names = (*operator.inputs[:2], *operator.outputs[:1])
    if any(name not in kernel.types for name in names) or operator_fault(kernel, operator):
        return Possible(is_matmul, (), frozenset())  # `kernel_form` or `kernel_shapes` reports it
    left, right, result = (kernel.types[name] for name in names)
    if not (left.element_count and right.element_count and result.element_count):
        return "contracts nothing: an operand is empty"
    works = (
        _matmul_works(left, right, result)
        if is_matmul
        else _convolution_works(operator, left, right, result)
    )
    stored = [stored_dtype(kernel, name) for name in operator.inputs[:2]]
    return Possible(is_matmul, works, _multiplied(stored))


def _say_work(m: int, n: int, k: int, groups: int, taps: int) -> str:
    return f"m={m} n={n} k={k} groups={groups} taps={taps}"


def _convolution_works(
    operator: Operator, data: TensorType, weights: TensorType, result: TensorType
) -> tuple[Work, ...]:
    taps = prod(weights.shape[2:])
    if operator.kind is Kind.CONV_TRANSPOSE:
        groups = operator.integer("group")
        pixels = data.shape[0] * prod(data.shape[2:])
        return ((pixels, weights.shape[1] * taps, data.shape[1] // groups, groups, 1),)
    groups = data.shape[1] // weights.shape[1]
    pixels = result.shape[0] * prod(result.shape[2:])
    return ((pixels, result.shape[1] // groups, taps * weights.shape[1], groups, taps),)


def _matmul_works(left: TensorType, right: TensorType, result: TensorType) -> tuple[Work, ...]:
    k = left.shape[-1]
    n = right.shape[-1] if right.rank > 1 else 1
    rows = left.shape[-2] if left.rank > 1 else 1
    batch = result.element_count // (rows * n)
    apart = (rows, n, k, batch, 1)
    shared = prod(right.shape[:-2]) == 1
    return ((rows * batch, n, k, 1, 1), apart) if shared and batch > 1 else (apart,)


def stored_dtype(kernel: Kernel, name: str) -> DType:
    """The element type of a kernel's value as memory holds it: before `dequantize` and views."""
    makers = {output: row for row in kernel.operators for output in row.outputs}
    while (maker := makers.pop(name, None)) is not None and maker.inputs:
        if maker.kind is not Kind.DEQUANTIZE and maker.kind not in VIEWS:
            break
        name = maker.inputs[0]
    return kernel.types[name].dtype if name in kernel.types else DType.F32


def _multiplied(stored: list[DType]) -> frozenset[DType]:
    """The types that a contraction of these operands may be counted in."""
    integers = [dtype for dtype in stored if not dtype.is_float]
    if len(integers) < len(stored):
        return frozenset(dtype for dtype in stored if dtype.is_float)
    if all(dtype.size_bytes == 1 for dtype in integers):
        return frozenset({DType.I8, DType.U8})
    return frozenset({max(integers, key=lambda dtype: dtype.size_bytes)})


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
    place = 1 if kind is Kind.WHERE else 0
    for data in set(operator.inputs[place : place + 1]) & set(kernel.parameters):
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
    for fact, attribute in (("stride", "strides"), ("dilation", "dilations"), ("kernel", "kernel")):
        values = operator.attributes.get(attribute)
        if isinstance(values, tuple):
            yield from ((fact, value) for value in values if isinstance(value, int))
    if operator.kind in (Kind.CONV, Kind.CONV_TRANSPOSE):
        for weights in operator.inputs[1:2]:
            if weights in kernel.types:
                yield from (("kernel", extent) for extent in kernel.types[weights].shape[2:])


def epilogue(facts: Facts) -> Findings:
    """On the tensor core, what isn't the contraction is free, so it must be what the core does
    as results drain.

    Operators beside the contraction are in the spec's `tensor_core.output_stage`, or are a
    `dequantize` of what the instruction reads, or views, or the addition of the contraction's sums
    to the sums (`f32` or `i32`, of the same shape) that an earlier part of it left.

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
            if kind in CONTRACTIONS or kind in VIEWS or kind in stage:
                continue
            if not (_reads_memory(operator, kernel) or _accumulates(operator, kernel)):
                yield Finding(
                    f"instruction {index}, kernel {kernel.name}: {kind} isn't in the tensor "
                    f"core's output stage, {', '.join(sorted(stage)) or 'which is empty'}",
                    "run it on the vector unit, or add it to `tensor_core.output_stage`",
                    index,
                )


def _reads_memory(operator: Operator, kernel: Kernel) -> bool:
    """Whether it is the dequantize of an operand on its way in."""
    reads = operator.inputs[:1]
    return operator.kind is Kind.DEQUANTIZE and bool(reads) and reads[0] in kernel.parameters


def _accumulates(operator: Operator, kernel: Kernel) -> bool:
    """Whether it adds the contraction's sums to earlier ones, read from memory."""
    if operator.kind is not Kind.ADD or len(operator.inputs) != 2:
        return False
    sums = {row.outputs[0] for row in kernel.operators if row.kind in CONTRACTIONS and row.outputs}
    for made, earlier in (operator.inputs, operator.inputs[::-1]):
        types = kernel.types.get(made), kernel.types.get(earlier)
        if made in sums and earlier in kernel.parameters and None not in types:
            fresh, kept = types
            assert fresh is not None
            assert kept is not None
            return kept.dtype in (DType.F32, DType.I32) and kept.shape == fresh.shape
    return False
