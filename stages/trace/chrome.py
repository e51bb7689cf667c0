"""Timelines as Chrome trace JSON, for chrome://tracing and Perfetto.

The format is Google's "Trace Event Format" (the document linked from chrome://tracing).
Complete events ("X") of one track mustn't overlap, so each engine is a thread of its own; a
quantity over time is a counter ("C") of its process, and what waited for what an arrow ("s" to
"f"). Times are microseconds there; a nanosecond is kept as three decimals.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from stages.trace.spans import Series, Span, Timeline

Event = dict[str, object]


def chrome_trace(processes: Sequence[tuple[str, Timeline]]) -> str:
    """The text of a trace file: each timeline a process of this name; sorted keys, one event a
    line."""
    events = (
        event
        for number, (name, timeline) in enumerate(processes, start=1)
        for event in _process(number, name, timeline)
    )
    lines = ",\n".join(json.dumps(event, sort_keys=True, separators=(",", ":")) for event in events)
    return f'{{"displayTimeUnit": "ns", "traceEvents": [\n{lines}\n]}}\n'


def _process(number: int, name: str, timeline: Timeline) -> Iterator[Event]:
    """Metadata, then what happened in the order of its time."""
    threads = {track: index for index, track in enumerate(timeline.tracks, start=1)}
    yield _metadata(number, 0, "process_name", {"name": name})
    yield _metadata(number, 0, "process_sort_index", {"sort_index": number})
    for track, thread in threads.items():
        yield _metadata(number, thread, "thread_name", {"name": track})
        yield _metadata(number, thread, "thread_sort_index", {"sort_index": thread})
    for span in sorted(timeline.spans, key=lambda item: item.start_ns):
        yield _complete(number, threads[span.track], span)
    for series in timeline.series:
        yield from _counter(number, series)
    for index, flow in enumerate(timeline.flows):
        for phase, place in (("s", flow.source), ("f", flow.target)):
            span = timeline.spans[place]
            yield _arrow_end(phase, f"{number}.{index}", number, threads[span.track], span)


def _metadata(process: int, thread: int, name: str, content: Event) -> Event:
    return {"ph": "M", "name": name, "pid": process, "tid": thread, "args": content}


def _complete(process: int, thread: int, span: Span) -> Event:
    return {
        "ph": "X",
        "name": span.name,
        "cat": span.category or "work",
        "pid": process,
        "tid": thread,
        "ts": span.start_ns / 1000,
        "dur": span.duration_ns / 1000,
        "args": {"group": span.group, **span.facts} if span.group else {**span.facts},
    }


def _arrow_end(phase: str, name: str, process: int, thread: int, span: Span) -> Event:
    """One end of an arrow: it binds to the complete event that encloses its time."""
    end: Event = {
        "ph": phase,
        "name": "waits for",
        "cat": "event",
        "id": name,
        "pid": process,
        "tid": thread,
        "ts": span.start_ns / 1000,
    }
    return {**end, "bp": "e"} if phase == "f" else end


def _counter(process: int, series: Series) -> Iterator[Event]:
    """One event for each change of the value."""
    last: float | None = None
    for time_ns, value in zip(series.times_ns, series.values, strict=True):
        if value != last:
            last = value
            yield {
                "ph": "C",
                "name": f"{series.name} ({series.unit})",
                "pid": process,
                "tid": 0,
                "ts": time_ns / 1000,
                "args": {series.unit: value},
            }
