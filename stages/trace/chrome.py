"""Timelines as Chrome trace JSON, for chrome://tracing and Perfetto.

The format is Google's "Trace Event Format" (the document linked from chrome://tracing).
Complete events ("X") of one track mustn't overlap, so each engine is a thread of its own. Times
are microseconds there; a nanosecond is kept as three decimals.
"""

from __future__ import annotations

import json

from stages.trace.spans import Timeline


def chrome_trace(timeline: Timeline, process: str) -> str:
    """The text of a trace file: sorted keys, one event a line."""
    threads = {track: index + 1 for index, track in enumerate(timeline.tracks)}
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": process}}
    ]
    for track, thread in threads.items():
        events.append(
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": thread, "args": {"name": track}}
        )
        events.append(
            {
                "ph": "M",
                "name": "thread_sort_index",
                "pid": 1,
                "tid": thread,
                "args": {"sort_index": thread},
            }
        )
    for span in timeline.spans:
        events.append(
            {
                "ph": "X",
                "name": span.name,
                "cat": span.category or "work",
                "pid": 1,
                "tid": threads[span.track],
                "ts": span.start_ns / 1000,
                "dur": span.duration_ns / 1000,
                "args": {"group": span.group, **span.facts} if span.group else {**span.facts},
            }
        )
    lines = ",\n".join(json.dumps(event, sort_keys=True) for event in events)
    return f'{{"displayTimeUnit": "ns", "traceEvents": [\n{lines}\n]}}\n'
