"""The one figure that a stage is known by, from what it wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from stages.evaluation.latency import ratio_text
from stages.evaluation.verdict import Verdict
from stages.report.facts import (
    BenchmarkFacts,
    GateFacts,
    NormalizeFacts,
    StressFacts,
    ValidationFacts,
    facts_of,
)
from stages.report.package_figure import package_figure
from stages.units import format_ns


def main_figure(stage: str, out: Path) -> str:
    """A few words about what the stage wrote to `out`.

    Raises:
        InputError: its report is missing or damaged.
    """
    return _FIGURES[stage](out)


def _normalize(out: Path) -> str:
    facts = facts_of("normalize", out, NormalizeFacts)
    figure = (
        f"{facts.nodes_before} -> {facts.nodes_after} nodes, "
        f"opset {facts.opset_from} -> {facts.opset_to}"
    )
    if not facts.proof.compared_with:
        return f"{figure}, not compared"
    return f"{figure}, differs by {facts.proof.max_relative_difference:.1e} at most"


def _validate(out: Path) -> str:
    facts = facts_of("validate", out, ValidationFacts)
    if facts.verdict is Verdict.FAIL:
        return facts.reasons[0]
    outputs = facts.outputs
    cosine = _extreme("cosine", min, (item.cosine for item in outputs), ".6f")
    error = _extreme("error", max, (item.relative_error for item in outputs), ".2e")
    noise = _extreme("SQNR", min, (item.sqnr_db for item in outputs), ".1f", " dB")
    if any(not item.is_conclusive for item in outputs):
        noise += " end to end (inconclusive), every link holds"
    figures = [noise] if facts.is_quantized else [cosine, error]
    return ", ".join(filter(None, figures)) or facts.reasons[0]


def _extreme(
    name: str,
    choose: Callable[[list[float]], float],
    values: Iterable[float | None],
    form: str,
    unit: str = "",
) -> str:
    known = [value for value in values if value is not None]
    return f"{name} {choose(known):{form}}{unit}" if known else ""


def _benchmark(out: Path) -> str:
    latency = facts_of("benchmark", out, BenchmarkFacts).latency
    return f"P50 {format_ns(latency.p50_ns)}, P99 {format_ns(latency.p99_ns)}"


def _gate(out: Path) -> str:
    return facts_of("gate", out, GateFacts).reasons[0]


def _thermal_stress(out: Path) -> str:
    facts = facts_of("thermal_stress", out, StressFacts)
    if facts.verdict is Verdict.FAIL:
        return facts.reasons[0]
    return (
        f"P99/P50 {ratio_text(facts.latency.p99_over_p50)} from {facts.junction_celsius:g} degC, "
        f"{facts.throttled_runs} of {facts.latency.runs} runs throttled"
    )


_FIGURES: dict[str, Callable[[Path], str]] = {
    "normalize": _normalize,
    "compile": package_figure,
    "validate": _validate,
    "benchmark": _benchmark,
    "gate": _gate,
    "thermal_stress": _thermal_stress,
}
