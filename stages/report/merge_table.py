"""A row for each pair of a merge, for a page that shows tables."""

from __future__ import annotations

from collections.abc import Iterable

from stages.comparison.merge_facts import Metric
from stages.comparison.merge_rule import PairJudgement
from stages.report.merge_cells import ACCURACY, TITLES, cell
from stages.report.merge_text import visible

_COLUMNS = (
    Metric.P50,
    Metric.P99,
    Metric.TAIL,
    Metric.HOT_TAIL,
    Metric.SRAM,
    Metric.DDR,
    Metric.FALLBACKS,
)


def merge_rows(pairs: Iterable[PairJudgement]) -> list[dict[str, str]]:
    """Verdict, metrics before and after, and the first reason of each pair."""
    return [_row(pair) for pair in pairs]


def _row(pair: PairJudgement) -> dict[str, str]:
    found = pair.deltas
    return {
        "model": visible(pair.sides.model),
        "device": visible(pair.sides.hardware),
        "verdict": pair.verdict.value,
        **{TITLES[metric]: cell(found, metric) for metric in _COLUMNS},
        "accuracy": cell(found, *ACCURACY),
        "why": visible(pair.reasons[0]),
    }
