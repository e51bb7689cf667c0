"""The merge gate's report in JSON, for programs. docs/merge-gate.md describes every key."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from stages.comparison.merge_facts import Delta, HostOperator, SideFacts
from stages.comparison.merge_rule import PairJudgement, PairVerdict
from stages.evaluation.report_files import report_text
from stages.report.merge_report import MergeReport, headline
from stages.report.merge_text import visible

SCHEMA = "recipe-merge-gate"
VERSION = 1
_DECIMALS = 6


def merge_json(report: MergeReport) -> str:
    """The whole report, worst pair first; equal facts give equal bytes."""
    judgement = report.judgement
    return report_text(
        {
            "schema": SCHEMA,
            "version": VERSION,
            "verdict": judgement.verdict.value,
            "exit_code": int(judgement.outcome),
            "headline": visible(headline(report)),
            "repository": visible(report.repository),
            "base": visible(report.base),
            "head": visible(report.head),
            "max_p99_increase_percent": report.limit_percent,
            "notes": [visible(note) for note in report.notes],
            "counts": {v.value: len(judgement.having(v)) for v in PairVerdict},
            "untouched": report.untouched,
            "pairs": [_pair(pair) for pair in judgement.pairs],
        }
    )


def _pair(pair: PairJudgement) -> dict[str, object]:
    sides = pair.sides
    return {
        "model": visible(sides.model),
        "hardware": visible(sides.hardware),
        "verdict": pair.verdict.value,
        "blocks": pair.blocks,
        "exit_code": int(pair.outcome),
        "reasons": [visible(reason) for reason in pair.reasons],
        "deltas": {delta.metric.value: _delta(delta) for delta in pair.deltas},
        "newly_on_host": _operators(pair.newly_hosted),
        "no_longer_on_host": _operators(pair.no_longer_hosted),
        "base": _side(sides.base),
        "head": _side(sides.head),
    }


def _delta(delta: Delta) -> dict[str, object]:
    change = delta.change_percent
    return {
        "before": _number(delta.before),
        "after": _number(delta.after),
        "change_percent": None if change is None else round(float(change), _DECIMALS),
    }


def _number(value: Fraction | None) -> int | float | None:
    """Whole numbers stay whole."""
    if value is None:
        return None
    return value.numerator if value.denominator == 1 else float(f"{float(value):.9g}")


def _operators(operators: Sequence[HostOperator]) -> list[dict[str, str]]:
    return [
        {
            "name": visible(operator.name),
            "kind": visible(operator.kind),
            "reason": visible(operator.reason),
        }
        for operator in operators
    ]


def _side(side: SideFacts | None) -> dict[str, object] | None:
    if side is None:
        return None
    return {
        "package": side.package or None,
        "fallbacks": _operators(side.fallbacks),
        "failures": [
            {
                "stage": failure.stage,
                "check": visible(failure.check) or None,
                "exit_code": int(failure.outcome),
                "message": visible(failure.message),
            }
            for failure in side.failures
        ],
    }
