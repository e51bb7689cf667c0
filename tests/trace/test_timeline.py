"""Timelines: counters by hand, and the Chrome trace format."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from stages.trace.chrome import chrome_trace
from stages.trace.counters import covered_ns, exposed_ns
from stages.trace.spans import Flow, Series, Span, Timeline

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


def test_covered_and_exposed_time() -> None:
    assert covered_ns(TIMELINE.spans) == (70 - 10) + (95 - 80)
    assert covered_ns(()) == 0
    # transfers alone: [10, 35) and [90, 95)
    assert exposed_ns(TIMELINE, ["dma0", "dma1"]) == 30
    # the core alone: [60, 70) and [80, 90)
    assert exposed_ns(TIMELINE, ["core"]) == 20


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
    text = chrome_trace([("cls on npu", TIMELINE)])
    events = json.loads(text)["traceEvents"]
    names = {
        event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    assert list(names.values()) == ["core", "dma0", "dma1", "host"]
    order = [event["args"] for event in events if event["name"] == "thread_sort_index"]
    assert order == [{"sort_index": 1}, {"sort_index": 2}, {"sort_index": 3}, {"sort_index": 4}]
    work = [event for event in events if event["ph"] == "X"]
    assert len(work) == len(TIMELINE.spans)
    first = work[0]
    assert (names[first["tid"]], first["ts"], first["dur"]) == ("dma0", 0.01, 0.02)
    assert first["args"] == {"group": "one", "bytes": 64}
    assert chrome_trace([("cls on npu", TIMELINE)]) == text


def test_a_counter_has_one_event_for_each_change() -> None:
    warm = Series("junction", "degC", (0, 50, 50, 90), (25.0, 26.5, 26.5, 27.0))
    timeline = Timeline(("core",), (), 100, (warm,))
    content = json.loads(chrome_trace([("one", TIMELINE), ("two", timeline)]))
    counters = [event for event in content["traceEvents"] if event["ph"] == "C"]
    assert [(event["pid"], event["ts"], event["args"]) for event in counters] == [
        (2, 0.0, {"degC": 25.0}),
        (2, 0.05, {"degC": 26.5}),
        (2, 0.09, {"degC": 27.0}),
    ]
    assert {event["name"] for event in counters} == {"junction (degC)"}
    processes = [
        (event["pid"], event["args"]["name"])
        for event in content["traceEvents"]
        if event["name"] == "process_name"
    ]
    assert processes == [(1, "one"), (2, "two")]


def test_an_arrow_leads_from_a_span_to_what_waited_for_it() -> None:
    timeline = replace(TIMELINE, flows=(Flow(0, 2), Flow(3, 4)))
    events = json.loads(chrome_trace([("one", timeline)]))["traceEvents"]
    ends = [event for event in events if event["ph"] in "sf"]
    assert [(event["ph"], event["tid"], event["ts"]) for event in ends] == [
        ("s", 2, 0.01), ("f", 1, 0.035), ("s", 2, 0.04), ("f", 1, 0.08),
    ]  # fmt: skip
    assert [event["id"] for event in ends] == ["1.0", "1.0", "1.1", "1.1"]
    assert [event.get("bp") for event in ends] == [None, "e", None, "e"]
    with pytest.raises(ValueError, match="back in time"):
        replace(TIMELINE, flows=(Flow(2, 0),))
