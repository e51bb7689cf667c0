"""What becomes of one node test: runs on the device, on the host, is refused, or is wrong."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
import onnx

from stages.compiler.pipeline import compile_graph
from stages.device.functional import Machine
from stages.device.host import HostRuntime
from stages.errors import RecipeError
from stages.hardware.spec import HardwareSpec
from stages.normalizer.normalize import normalize_model
from stages.normalizer.source import ModelSource
from stages.recipe.decisions import Recipe
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind
from stages.recipe.onnx_import import import_model
from stages.recipe.semantics import HostCall, interpret
from stages.tensors import Array
from tests.conformance.cases import Case, arrays, as_array, with_constants

FLOAT_ERROR = 1e-5
"""Beyond a test's own tolerance, relative to the result's range: sums come in another order."""
NARROW_FLOAT_ERROR = 0.01
"""The largest error of a device that computes in 16 bits, relative to the result's range."""


class Verdict(StrEnum):
    """What became of a test."""

    DEVICE = "device"  # every operator runs on the device, or is a constant
    HOST = "host"  # at least one operator falls back to the host
    REFUSED = "refused"  # with a message
    NARROW = "narrow"  # as expected only where 16 bits hold the values
    WRONG = "wrong"  # other results than expected
    BROKEN = "broken"  # an exception that isn't a message for a user


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on a test, and why where it isn't `device`."""

    name: str
    operator: str
    verdict: Verdict
    reason: str = ""
    fixed: bool = False
    """Whether inputs had to be made constants, since shapes depend on them."""


def judge(case: Case, spec: HardwareSpec) -> Outcome:
    """Normalise, import, compile for the device, run, compare.

    A test that is refused is tried again with the inputs after its first one made constants, then
    with all of them: tests feed axes and shapes which models hold.
    """
    outcome = _judge(case, spec)
    names = list(arrays(case))
    for fixed in (names[1:], names):
        if outcome.verdict is not Verdict.REFUSED or not fixed:
            break
        again = _judge(with_constants(case, fixed), spec)
        if again.verdict in (Verdict.DEVICE, Verdict.HOST, Verdict.NARROW):
            return replace(again, fixed=True)
    return outcome


def _judge(case: Case, spec: HardwareSpec) -> Outcome:
    try:
        model = _normalised(case)
        graph, constants = import_model(model)
        feeds = {name: array for name, array in arrays(case).items() if name in graph.inputs}
        meant = interpret(graph, constants, feeds, host_call=_host(graph))
        if problem := compare(case, graph, meant, FLOAT_ERROR):
            return Outcome(case.name, case.operator, Verdict.WRONG, f"import: {problem}")
        if not graph.operators:
            return Outcome(case.name, case.operator, Verdict.DEVICE)
        compiled = compile_graph(graph, constants, spec)
        given = Machine(compiled.plan, compiled.weights, spec).run(feeds).outputs
        if problem := compare(case, graph, given, NARROW_FLOAT_ERROR):
            verdict = (
                Verdict.NARROW if _is_narrow(graph, constants, feeds, given) else Verdict.WRONG
            )
            return Outcome(case.name, case.operator, verdict, f"device: {problem}")
    except RecipeError as refusal:
        return Outcome(case.name, case.operator, Verdict.REFUSED, refusal.problem)
    except Exception as error:
        text = f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}"
        return Outcome(case.name, case.operator, Verdict.BROKEN, text)
    reason = _fallback(compiled.recipe)
    verdict = Verdict.HOST if reason else Verdict.DEVICE
    return Outcome(case.name, case.operator, verdict, reason)


def _host(graph: Graph) -> HostCall:
    runtime = HostRuntime()

    def call(operator: Operator, operands: Sequence[Array | None]) -> Sequence[Array]:
        reads = [graph.types[name] for name in operator.inputs]
        makes = [graph.types[name] for name in operator.outputs]
        return runtime.prepare(operator, reads, makes)(operands)

    return call


def _is_narrow(
    graph: Graph,
    constants: Mapping[str, Array],
    feeds: Mapping[str, Array],
    given: Mapping[str, Array],
) -> bool:
    """Whether the imported graph gives what the device gives when its values are 16 bits wide."""
    with np.errstate(over="ignore"):
        rounded = {name: _in_16_bits(array) for name, array in feeds.items()}
        meant = interpret(graph, constants, rounded, host_call=_host(graph))
        return all(
            np.allclose(
                _in_16_bits(given[name]),
                _in_16_bits(meant[name]),
                NARROW_FLOAT_ERROR,
                NARROW_FLOAT_ERROR,
                equal_nan=True,
            )
            for name in graph.outputs
        )


def _in_16_bits(array: Array) -> Array:
    if array.dtype.kind != "f":
        return array
    return array.astype(np.float16).astype(array.dtype)


def _normalised(case: Case) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(case.model.SerializeToString())
        return normalize_model(ModelSource(case.name, path)).model


def _fallback(recipe: Recipe) -> str:
    """Why the first group that computes is on the host; empty where none is."""
    operators = {operator.name: operator for operator in recipe.graph.operators}
    for group in recipe.fallbacks:
        members = [operators[name] for name in group.operators]
        if any(operator.kind is not Kind.IDENTITY for operator in members):
            return group.reason or "no reason given"
    return ""


def compare(case: Case, graph: Graph, given: dict[str, Array], slack: float) -> str:
    """What differs from the expected outputs; empty where nothing does.

    `slack` is an error allowed beyond the test's own tolerance, relative to the output's range.
    """
    if case.expected is None:
        return ""
    for name, expected in zip(graph.outputs, case.expected, strict=True):
        wanted = as_array(expected)
        if wanted is None:
            return f"%{name} is no array"
        if problem := _difference(given[name], wanted, case, slack):
            return f"%{name} {problem}"
    return ""


def _difference(actual: Array, expected: Array, case: Case, slack: float) -> str:
    if actual.shape != expected.shape:
        return f"has shape {list(actual.shape)}, expected {list(expected.shape)}"
    if actual.dtype != expected.dtype:
        return f"has type {actual.dtype}, expected {expected.dtype}"
    if not expected.size:
        return ""
    real, wanted = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    finite = wanted[np.isfinite(wanted)]
    spread = float(np.abs(finite).max(initial=0.0))
    floats = expected.dtype.kind not in "iub"
    bytes_apart = 1.0 if expected.dtype.itemsize == 1 and expected.dtype.kind in "iu" else 0.0
    absolute = case.absolute + (slack * spread if floats else bytes_apart)
    relative = max(case.relative, slack) if floats else 0.0
    if expected.dtype.itemsize == 2 and floats:
        relative = max(relative, NARROW_FLOAT_ERROR)
        absolute = max(absolute, NARROW_FLOAT_ERROR * spread)
    close = np.isclose(real, wanted, rtol=relative, atol=absolute, equal_nan=True)
    if close.all():
        return ""
    worst = float(np.nanmax(np.abs(np.where(close, 0.0, real - wanted))))
    return f"differs in {int((~close).sum())} of {close.size} elements, by up to {worst:.3g}"
