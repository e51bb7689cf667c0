"""Where the time of a timeline went: by track, by group, and what was exposed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stages.trace.spans import Span, Timeline


@dataclass(frozen=True, slots=True)
class TrackTime:
    """A track's share of a run; the three sum to the run's duration.

    `busy_ns` it worked; `waiting_ns` it stood still with work to come; `idle_ns` it had none left
    (or none at all).
    """

    busy_ns: int
    waiting_ns: int
    idle_ns: int


def track_times(timeline: Timeline) -> dict[str, TrackTime]:
    """The time of every track."""
    busy = dict.fromkeys(timeline.tracks, 0)
    last = dict.fromkeys(timeline.tracks, 0)
    for span in timeline.spans:
        busy[span.track] += span.duration_ns
        last[span.track] = span.end_ns
    return {
        track: TrackTime(busy[track], last[track] - busy[track], timeline.duration_ns - last[track])
        for track in timeline.tracks
    }


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


def group_times(timeline: Timeline) -> dict[str, int]:
    """From the first start to the last end of each group, in order of appearance, in ns.

    Groups that overlap count twice: the sum may exceed the run.
    """
    extents: dict[str, tuple[int, int]] = {}
    for span in timeline.spans:
        if not span.group:
            continue
        start, end = extents.get(span.group, (span.start_ns, span.end_ns))
        extents[span.group] = (min(start, span.start_ns), max(end, span.end_ns))
    return {group: end - start for group, (start, end) in extents.items()}
