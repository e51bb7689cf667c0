"""Timelines: counters by hand, and the Chrome trace format."""

from __future__ import annotations

import json

import pytest

from stages.trace.chrome import chrome_trace
from stages.trace.counters import TrackTime, covered_ns, exposed_ns, group_times, track_times
from stages.trace.spans import Span, Timeline

TIMELINE = Timeline(
    ("core", "dma0", "dma1", "host"),
    (
        Span("dma0", "load a", 10, 30, "DMA_COPY", "one", {"bytes": 64}),
        Span("dma1", "load b", 20, 40, "DMA_COPY", "one"),
        Span("core", "conv", 35, 70, "TENSOR_CORE_CONV", "one"),
        Span("dma0", "load c", 40, 60, "DMA_COPY", "two"),
        Span("core", "relu", 80, 90, "VECTOR", "two"),
        Span("dma0", "store", 90, 95, "DMA_COPY"),
    ),
    100,
)


def test_track_times_sum_to_the_run() -> None:
    assert track_times(TIMELINE) == {
        "core": TrackTime(busy_ns=45, waiting_ns=45, idle_ns=10),
        "dma0": TrackTime(busy_ns=45, waiting_ns=50, idle_ns=5),
        "dma1": TrackTime(busy_ns=20, waiting_ns=20, idle_ns=60),
        "host": TrackTime(busy_ns=0, waiting_ns=0, idle_ns=100),
    }


def test_covered_and_exposed_time() -> None:
    assert covered_ns(TIMELINE.spans) == (70 - 10) + (95 - 80)
    assert covered_ns(()) == 0
    # transfers alone: [10, 35) and [90, 95)
    assert exposed_ns(TIMELINE, ["dma0", "dma1"]) == 30
    # the core alone: [60, 70) and [80, 90)
    assert exposed_ns(TIMELINE, ["core"]) == 20


def test_groups_reach_from_their_first_start_to_their_last_end() -> None:
    assert group_times(TIMELINE) == {"one": 60, "two": 50}


@pytest.mark.parametrize(
    "spans",
    [
        (Span("a", "x", 0, 10), Span("a", "y", 9, 12)),
        (Span("a", "x", 5, 4),),
        (Span("a", "x", 0, 101),),
    ],
)
def test_spans_that_overlap_or_leave_the_run_are_a_bug(spans: tuple[Span, ...]) -> None:
    with pytest.raises(ValueError, match="isn't within"):
        Timeline(("a",), spans, 100)


def test_the_chrome_trace_has_a_thread_for_each_track() -> None:
    content = json.loads(chrome_trace(TIMELINE, "cls on npu"))
    events = content["traceEvents"]
    names = {
        event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    assert list(names.values()) == ["core", "dma0", "dma1", "host"]
    work = [event for event in events if event["ph"] == "X"]
    assert len(work) == len(TIMELINE.spans)
    first = work[0]
    assert (names[first["tid"]], first["ts"], first["dur"]) == ("dma0", 0.01, 0.02)
    assert first["args"] == {"group": "one", "bytes": 64}
    assert chrome_trace(TIMELINE, "cls on npu") == chrome_trace(TIMELINE, "cls on npu")
