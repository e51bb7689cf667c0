"""A row for each pair of a matrix, for Prefect's page and the terminal."""

from __future__ import annotations

from flows.project.requests import Pair
from flows.steps.matrix_request import WITH_OUTPUTS, MatrixResult, Standing, StepAnswer
from flows.steps.stage_calls import Stage
from stages.errors import Outcome
from stages.units import format_ns


def matrix_rows(result: MatrixResult) -> list[dict[str, str]]:
    """The pairs in the graph's order: what came of them, their latency, and why one failed."""
    return [_row(result, pair) for pair in result.pairs()]


def _row(result: MatrixResult, pair: Pair) -> dict[str, str]:
    answers = result.answers_of(pair)
    outcome = result.outcome_of(pair)
    latency = ("", "")
    if any(a.step.stage is Stage.BENCHMARK and a.standing in WITH_OUTPUTS for a in answers):
        measured = result.facts(pair).benchmark
        assert measured is not None
        latency = (format_ns(measured.latency.p50_ns), format_ns(measured.latency.p99_ns))
    return {
        "model": pair.model,
        "device": pair.hardware,
        "result": "PASS" if outcome is Outcome.PASSED else outcome.name,
        "P50": latency[0],
        "P99": latency[1],
        "ran": ", ".join(a.step.stage for a in answers if a.standing is Standing.RAN),
        "why": _why(answers),
    }


def _why(answers: list[StepAnswer]) -> str:
    bad = next((a for a in answers if a.outcome is not Outcome.PASSED), None)
    return f"{bad.step.stage}: {bad.message.splitlines()[0]}" if bad is not None else ""
