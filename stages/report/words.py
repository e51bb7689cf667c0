"""The summary of a pair in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from stages.evaluation.latency import ratio_text
from stages.evaluation.package_facts import Fallback
from stages.evaluation.verdict import Verdict
from stages.report.facts import PairFacts
from stages.units import format_bytes, format_ns

_REASONS_SHOWN = 5


def summary_lines(facts: PairFacts) -> list[str]:
    """Latency, memory, fallbacks with their reasons, and what failed and how to cure it."""
    return [*_latency(facts), *_memory(facts), *_fallbacks(facts), *_failures(facts)]


def _latency(facts: PairFacts) -> Iterator[str]:
    if facts.benchmark is not None:
        latency, roofline = facts.benchmark.latency, facts.benchmark.roofline
        yield (
            f"latency: P50 {format_ns(latency.p50_ns)}, P99 {format_ns(latency.p99_ns)}, "
            f"P99/P50 {ratio_text(latency.p99_over_p50)}; "
            f"{roofline.ratio:.2f} times the roofline, {format_ns(roofline.bound_ns)}"
        )


def _memory(facts: PairFacts) -> Iterator[str]:
    if facts.validation is not None:
        uses = [
            f"{use.memory} {format_bytes(use.peak_bytes)} of {format_bytes(use.available_bytes)}"
            f" (live at once {format_bytes(use.lower_bound_bytes)})"
            for use in facts.validation.memory
        ]
        yield f"peak memory: {', '.join(uses)}"


def _fallbacks(facts: PairFacts) -> Iterator[str]:
    if facts.validation is None:
        return
    found = facts.validation.fallbacks
    count = sum(len(fallback.operators) for fallback in found)
    yield f"fused groups: {facts.validation.fused_groups}; fallbacks: {count or 'none'}"
    by_reason: dict[str, list[Fallback]] = {}
    for fallback in found:
        by_reason.setdefault(fallback.reason, []).append(fallback)
    for reason, fallbacks in list(by_reason.items())[:_REASONS_SHOWN]:
        yield f"  {_kinds(fallbacks)}, {format_ns(_price(fallbacks))}: {reason}"
    if len(by_reason) > _REASONS_SHOWN:
        yield f"  and {len(by_reason) - _REASONS_SHOWN} more reasons: see validation.json"


def _kinds(fallbacks: Sequence[Fallback]) -> str:
    kinds = Counter(kind for fallback in fallbacks for kind in fallback.kinds)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


def _price(fallbacks: Sequence[Fallback]) -> int:
    return sum(fallback.priced_ns for fallback in fallbacks)


def _failures(facts: PairFacts) -> Iterator[str]:
    for name, judged in (
        ("validation", facts.validation),
        ("gate", facts.gate),
        ("stress", facts.stress),
    ):
        if judged is not None and judged.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
            yield from (f"{name} {judged.verdict}: {reason}" for reason in judged.reasons)
