"""Metrics before and after, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from types import MappingProxyType

from stages.comparison.merge_facts import Delta, Metric
from stages.comparison.merge_words import percent_text, time_text
from stages.evaluation.latency import ratio_text
from stages.units import format_bytes

TITLES = MappingProxyType(
    {
        Metric.P50: "P50",
        Metric.P99: "P99",
        Metric.TAIL: "P99/P50",
        Metric.HOT_TAIL: "hot P99/P50",
        Metric.SRAM: "peak SRAM",
        Metric.DDR: "peak DDR",
        Metric.FUSED_GROUPS: "fused groups",
        Metric.FALLBACKS: "fallbacks",
        Metric.COSINE: "cosine",
        Metric.RELATIVE_ERROR: "error",
        Metric.SQNR: "SQNR",
    }
)
ACCURACY = (Metric.COSINE, Metric.RELATIVE_ERROR, Metric.SQNR)

_IN_PERCENT = frozenset({Metric.P50, Metric.P99, Metric.SRAM, Metric.DDR})
_FORMS: dict[Metric, Callable[[Fraction], str]] = {
    Metric.P50: lambda value: time_text(int(value)),
    Metric.P99: lambda value: time_text(int(value)),
    Metric.TAIL: ratio_text,
    Metric.HOT_TAIL: ratio_text,
    Metric.SRAM: lambda value: format_bytes(int(value)),
    Metric.DDR: lambda value: format_bytes(int(value)),
    Metric.FUSED_GROUPS: lambda value: str(int(value)),
    Metric.FALLBACKS: lambda value: str(int(value)),
    Metric.COSINE: lambda value: f"{float(value):.6f}",
    Metric.RELATIVE_ERROR: lambda value: f"{float(value):.2e}",
    Metric.SQNR: lambda value: f"{float(value):.1f} dB",
}


def delta_text(delta: Delta, arrow: str = "->") -> str:
    """`1.204 ms -> 2.913 ms (+142.0 %)`; one value where both read the same, or one is new."""
    form = _FORMS[delta.metric]
    before, after = delta.before, delta.after
    if after is None:
        return f"{form(before)} {arrow} none" if before is not None else ""
    if before is None or form(before) == form(after):
        return form(after)
    change = delta.change_percent if delta.metric in _IN_PERCENT else None
    percent = f" ({percent_text(change)})" if change is not None else ""
    return f"{form(before)} {arrow} {form(after)}{percent}"


def cell(deltas: Sequence[Delta], *metrics: Metric, arrow: str = "->") -> str:
    """The metrics of one cell; named where it can hold several."""
    found = [delta for delta in deltas if delta.metric in metrics]
    texts = [
        f"{TITLES[delta.metric]} {delta_text(delta, arrow)}"
        if len(metrics) > 1
        else delta_text(delta, arrow)
        for delta in found
    ]
    return ", ".join(texts)
