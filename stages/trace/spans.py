"""Spans and timelines: what happened when, on which track."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Span:
    """Something that a track did in `[start_ns, end_ns)`.

    `category` says what class of work it was, `group` which part of the recipe it belongs to;
    `facts` are shown beside it.
    """

    track: str
    name: str
    start_ns: int
    end_ns: int
    category: str = ""
    group: str = ""
    facts: Mapping[str, int | str] = field(default_factory=dict)

    @property
    def duration_ns(self) -> int:
        """How long it took."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class Series:
    """A quantity over time: it has each value from its time on, until the next one's.

    `times_ns` never decrease.
    """

    name: str
    unit: str
    times_ns: Sequence[int]
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Flow:
    """One span waited for another, on another track. Both are indices into a timeline's spans."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The spans of one run, or of several in a row, that began at 0 and lasted `duration_ns`.

    `tracks` lists every engine, busy or not. Spans of one track don't overlap and come in order.
    A flow's source ends before its target starts.
    """

    tracks: tuple[str, ...]
    spans: tuple[Span, ...]
    duration_ns: int
    series: tuple[Series, ...] = ()
    flows: tuple[Flow, ...] = ()

    def __post_init__(self) -> None:
        reached = dict.fromkeys(self.tracks, 0)
        for span in self.spans:
            if not reached[span.track] <= span.start_ns <= span.end_ns <= self.duration_ns:
                raise ValueError(
                    f"span {span.name!r} [{span.start_ns}, {span.end_ns}) of {span.track} "
                    f"isn't within [{reached[span.track]}, {self.duration_ns})"
                )
            reached[span.track] = span.end_ns
        for flow in self.flows:
            if self.spans[flow.source].end_ns > self.spans[flow.target].start_ns:
                raise ValueError(f"{flow} goes back in time")

    def of_track(self, track: str) -> tuple[Span, ...]:
        """The spans of one track, in order."""
        return tuple(span for span in self.spans if span.track == track)
