"""Time that spans of a timeline cover, and what was exposed."""

from __future__ import annotations

from collections.abc import Iterable

from stages.trace.spans import Span, Timeline


def covered_ns(spans: Iterable[Span]) -> int:
    """Length of the union of spans, of whatever tracks."""
    total = reached = 0
    for span in sorted(spans, key=lambda item: item.start_ns):
        start = max(span.start_ns, reached)
        if span.end_ns > start:
            total += span.end_ns - start
            reached = span.end_ns
    return total


def exposed_ns(timeline: Timeline, tracks: Iterable[str]) -> int:
    """Time in which only these tracks worked: what hiding them behind others could save."""
    chosen = set(tracks)
    others = covered_ns(span for span in timeline.spans if span.track not in chosen)
    return covered_ns(timeline.spans) - others
