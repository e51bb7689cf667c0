"""Compiling a model and judging what comes out: the rules, the numbers, the cycles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx

from stages.compiler.pipeline import Compiled, compile_graph
from stages.compiler.quantization import Quantization, Range
from stages.compiler.support import COMPARISONS
from stages.device.functional import Machine
from stages.evaluation.accuracy import compare_floats
from stages.hardware.spec import HardwareSpec
from stages.plan.rules import check_plan
from stages.plan.rules.agreement import check_agreement
from stages.plan.timing import plan_cycles, simulate
from stages.recipe.graph import Graph
from stages.recipe.kinds import Kind
from stages.recipe.onnx_import import import_model
from stages.recipe.semantics import interpret
from stages.recipe.text import parse_recipe, print_recipe
from stages.recipe.verify import verify
from stages.tensors import Array, DType, TensorType
from tests.recipe.onnx_models import host_call, run_model

Arrays = Mapping[str, Array]
_NARROW_STEPS = 2
_INTEGER_ERROR = 0.1
_JUMPS = COMPARISONS | {Kind.FLOOR, Kind.CEIL, Kind.ROUND, Kind.SIGN, Kind.HOST_CALL}


class JudgementError(AssertionError):
    """What was compiled is wrong; `kind` says in which way."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


@dataclass(frozen=True)
class Case:
    """A model as the compiler reads it, what it computes, and how far rounding alone moves it."""

    graph: Graph
    constants: Arrays
    feeds: Arrays
    expected: Arrays
    rounded: Arrays


def case_of(model: onnx.ModelProto, feeds: Arrays) -> Case:
    """Import a model and run it: under ONNX Runtime, and with every value rounded to f16."""
    graph, constants = import_model(model)
    results = run_model(model, feeds)
    expected = dict(zip(graph.outputs, results, strict=True))
    return Case(graph, constants, feeds, expected, _in_halves(graph, constants, feeds))


def case_of_graph(graph: Graph, constants: Arrays, feeds: Arrays) -> Case:
    """A case whose meaning the reference interpreter says."""
    expected = interpret(graph, constants, feeds)
    return Case(graph, constants, feeds, expected, _in_halves(graph, constants, feeds))


def _in_halves(graph: Graph, constants: Arrays, feeds: Arrays) -> Arrays:
    types = {
        name: TensorType(DType.F16, item.shape) if item.dtype is DType.F32 else item
        for name, item in graph.types.items()
    }
    kept = {name: graph.types[name] for op in graph.operators for name in _parameters(op)}
    halves = replace(graph, types=types | kept)
    data = {name: array.astype(halves.types[name].dtype.numpy) for name, array in constants.items()}
    inputs = {name: array.astype(halves.types[name].dtype.numpy) for name, array in feeds.items()}
    with np.errstate(all="ignore"):
        return interpret(halves, data, inputs, host_call=host_call(halves))


def _parameters(operator) -> tuple[str, ...]:
    return operator.inputs[1:] if operator.kind in ("quantize", "dequantize") else ()


def compile_and_judge(case: Case, spec: HardwareSpec, sample: Arrays | None = None) -> Compiled:
    """Compile a case; assert that the recipe is legal, the plan keeps every rule, the device
    computes what ONNX Runtime computes, and takes the cycles that the compiler says.

    `sample`: what biases are corrected with.
    """
    compiled = compile_graph(case.graph, case.constants, spec, sample=sample)
    judge_plan(compiled, spec)
    judge_numbers(case, compiled, spec)
    return compiled


def compile_in_integers(case: Case, spec: HardwareSpec) -> Compiled:
    """Compile a case in int8 by the ranges that its own values take; the device must compute what
    the recipe means, but for steps that rounding in f16 flips. Where a step can flip a comparison
    or a whole number, only the plan is judged."""
    compiled = compile_graph(case.graph, case.constants, spec, own_ranges(case))
    judge_plan(compiled, spec)
    graph = compiled.recipe.graph
    if any(op.kind in _JUMPS for op in graph.operators) or not _casts_only_floats(graph):
        return compiled
    meant = interpret(graph, compiled.constants, case.feeds, host_call=host_call(graph))
    execution = Machine(compiled.plan, compiled.weights, spec).run(case.feeds)
    for name, expected in meant.items():
        if expected.dtype.kind == "f" and expected.size:
            size = max(1e-3, float(np.abs(expected).max()))
            off = float(np.abs(execution.outputs[name] - expected).max()) / size
            if not off <= _INTEGER_ERROR:
                raise JudgementError("int8", f"%{name} is off by {off:.3f} of its magnitude")
    return compiled


def own_ranges(case: Case) -> Quantization:
    """Ranges for every float of a case whose values are finite, by those values."""
    floats = [name for name, item in case.graph.types.items() if item.dtype.is_float]
    floats = [name for name in floats if name not in case.constants]
    taken = interpret(
        case.graph, case.constants, case.feeds, host_call=host_call(case.graph), keep=floats
    )
    ranges = {
        name: Range(min(0.0, float(taken[name].min())), max(0.0, float(taken[name].max())) + 1e-3)
        for name in floats
        if taken[name].size and np.isfinite(taken[name]).all()
    }
    return Quantization(ranges, frozenset())


def _casts_only_floats(graph: Graph) -> bool:
    return all(
        graph.types[op.outputs[0]].dtype.is_float for op in graph.operators if op.kind is Kind.CAST
    )


def judge_plan(compiled: Compiled, spec: HardwareSpec) -> None:
    """The recipe is legal and reads back, the plan keeps every rule and is that of the recipe, and
    simulated it takes the cycles that it was planned to take."""
    verify(compiled.recipe, compiled.constants)
    if parse_recipe(print_recipe(compiled.recipe)) != compiled.recipe:
        raise JudgementError("text", "the recipe doesn't read back as it was printed")
    for group in compiled.recipe.fallbacks:
        if not group.reason:
            raise JudgementError("fallback", f"group {group.name} is on the host without a reason")
    violations = check_plan(compiled.plan, spec)
    violations += check_agreement(
        compiled.plan, compiled.recipe, compiled.weights, compiled.packings
    )
    if violations:
        kinds = sorted({item.rule for item in violations})
        raise JudgementError(f"rule {','.join(kinds)}", str(violations[0]))
    if (one := plan_cycles(compiled.plan, spec)) != (
        other := int(simulate(compiled.plan, spec).total_cycles[0])
    ):
        raise JudgementError("cycles", f"{one} estimated, {other} simulated")


def judge_same_bits(one: Compiled, other: Compiled, feeds: Arrays, spec: HardwareSpec) -> None:
    """Run two plans of one model on the functional device: their outputs are the same, bit for
    bit."""
    wanted, found = (
        Machine(item.plan, item.weights, spec).run(feeds).outputs for item in (one, other)
    )
    assert found.keys() == wanted.keys()
    for name, expected in wanted.items():
        if not np.array_equal(found[name], expected):
            raise JudgementError("bits", f"%{name} differs")


def judge_numbers(case: Case, compiled: Compiled, spec: HardwareSpec) -> None:
    """Run the plan on the functional device and compare each output."""
    execution = Machine(compiled.plan, compiled.weights, spec).run(case.feeds)
    if execution.overflows:
        raise JudgementError("overflow", str(execution.overflows))
    for name, expected in case.expected.items():
        actual, rounded = execution.outputs[name], case.rounded[name]
        if actual.dtype != expected.dtype or actual.shape != expected.shape:
            raise JudgementError(
                "type", f"%{name} is {actual.dtype}{actual.shape}, not {expected.dtype}"
            )
        _compare(name, actual, expected, rounded)


def _compare(name: str, actual: Array, expected: Array, rounded: Array) -> None:
    """Floats within 1 % of the range and cosine 0.999, as `validate` asks, and as much more as
    rounding every value to f16 costs; integers within two steps, or as many as that moves."""
    if not expected.size:
        return
    if expected.dtype.kind in "iub":
        difference = np.abs(actual.astype(np.int64) - expected.astype(np.int64)).max()
        own = np.abs(rounded.astype(np.int64) - expected.astype(np.int64)).max()
        narrow = expected.dtype.itemsize == 1 and expected.dtype.kind != "b"
        if difference > own + (_NARROW_STEPS if narrow else 0):
            raise JudgementError(
                "numbers", f"%{name} is off by {difference}, rounding alone by {own}"
            )
        return
    facts, own_facts = compare_floats(actual, expected), compare_floats(rounded, expected)
    allowed = 0.01 + 4 * own_facts.relative_error
    least_cosine = min(0.999, 1 - 8 * (1 - own_facts.cosine))
    if (
        facts.special_mismatches > own_facts.special_mismatches
        or facts.relative_error > allowed
        or facts.cosine < least_cosine
    ):
        raise JudgementError(
            "numbers",
            f"%{name}: cosine {facts.cosine:.6f}, error {facts.relative_error:.4f}, "
            f"{facts.special_mismatches} NaN; rounding alone gives {own_facts.cosine:.6f}, "
            f"{own_facts.relative_error:.4f}",
        )
