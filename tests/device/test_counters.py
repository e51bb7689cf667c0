"""Counters of small plans by hand, and the timeline of a session."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.device.counters import count
from stages.device.segment_times import covered, nanoseconds
from stages.device.session_timeline import RUNS_TRACK
from stages.device.simulated import SimulatedDevice
from stages.hardware.cost import cycles_to_nanoseconds
from stages.hardware.spec import SyncMode
from stages.plan.costs import instruction_costs
from stages.trace.chrome import chrome_trace
from stages.trace.spans import Flow
from tests.device.packages import package_of
from tests.device.plans import conv_relu_plan
from tests.device.specs import tiny_spec
from tests.plan.large_plan import large_plan
from tests.plan.sample_plan import small_spec

METADATA = ("process_name", "process_sort_index", "thread_name", "thread_sort_index")
WEIGHT = np.ones((8, 8, 3, 3), np.float16)


@pytest.mark.parametrize("mode", SyncMode)
@pytest.mark.parametrize("clock_hz", [1_000_000_000, 333_333_333, 1_590_000_000])
def test_an_engines_time_adds_up_to_the_run(mode: SyncMode, clock_hz: int) -> None:
    spec = replace(small_spec(), clock_hz=clock_hz)
    spec = replace(spec, driver=replace(spec.driver, sync_mode=mode))
    plan = large_plan(4, 6)
    counters = count(plan, instruction_costs(plan, spec), spec)
    assert set(counters.engines) == set(plan.queues)
    for time in counters.engines.values():
        spent = time.busy_ns + sum(time.stalled_ns.values()) + time.idle_ns
        assert spent == counters.run.total_ns
    assert any(
        "strict" in name for time in counters.engines.values() for name in time.stalled_ns
    ) is (mode is SyncMode.STRICT)


def test_groups_and_operators_share_the_work_of_engines() -> None:
    spec, plan = small_spec(), large_plan(4, 6)
    counters = count(plan, instruction_costs(plan, spec), spec)
    busy = {name: time.busy_ns for name, time in counters.engines.items()}
    grouped = [
        sum(group.busy_ns[name] for group in counters.groups) for name in ("tensor_core", "dma")
    ]
    assert grouped == [busy["tensor_core"], busy["dma0"] + busy["dma1"]]
    assert sum(row.busy_ns for row in counters.operators) == busy["tensor_core"]
    assert [row.operator for row in counters.operators] == ["conv"] * 4
    assert {group.group for group in counters.groups} == {"conv0", "conv1", "conv2", "conv3", "end"}
    # 64 pixels x 16 x 16 channels, six tiles, four layers
    assert counters.run.macs == sum(group.macs for group in counters.groups) == 64 * 256 * 24
    # each layer's weights, and all of its features in and out
    assert counters.run.ddr_read_bytes == 4 * (512 + 6 * 2048)
    assert counters.run.ddr_written_bytes == 4 * 6 * 2048


def test_counters_of_a_convolution_by_hand() -> None:
    spec = tiny_spec()
    plan = conv_relu_plan()
    run = count(plan, instruction_costs(plan, spec), spec).run
    # x and y: 8 channels x 36 pixels x 2 bytes; w: 64 x 9 x 2 bytes
    assert (run.ddr_read_bytes, run.ddr_written_bytes) == (576 + 1152, 576)
    assert run.macs == 36 * 8 * 72
    # 81 cycles at 256 a cycle; 2304 bytes at 8 bytes a cycle
    assert run.macs_over_peak == round(81 / run.total_ns, 4)
    assert run.bandwidth_over_peak == round(288 / run.total_ns, 4)
    assert run.cache_hit_bytes is run.cache_miss_bytes is None


@given(st.integers(0, 1 << 60), st.integers(1, 4_000_000_000))
def test_cycles_become_nanoseconds_without_overflow(cycles: int, clock_hz: int) -> None:
    cycles %= clock_hz << 32  # 136 years
    spec = replace(tiny_spec(), clock_hz=clock_hz)
    assert int(nanoseconds(np.array([cycles]), clock_hz)[0]) == cycles_to_nanoseconds(spec, cycles)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=12))
def test_covered_time_counts_every_nanosecond_once(pairs: list[tuple[int, int]]) -> None:
    starts = np.array([start for start, _ in pairs], dtype=np.int64)
    ends = starts + np.array([length for _, length in pairs], dtype=np.int64)
    every = {at for start, length in pairs for at in range(start, start + length)}
    assert covered(starts, ends) == len(every)


def test_a_sessions_timeline_is_its_samples() -> None:
    spec = tiny_spec()
    device = SimulatedDevice(spec)
    device.load(package_of(conv_relu_plan(), {"w": WEIGHT}, spec), Path())
    samples = device.measure(runs=20, warmup=3, seed=4)
    timeline = device.session_timeline(samples, warmup=3, seed=4)
    runs = timeline.of_track(RUNS_TRACK)
    assert [span.duration_ns for span in runs] == samples.latencies_ns.tolist()
    assert [span.start_ns for span in runs[1:]] == [span.end_ns for span in runs[:-1]]
    core = timeline.of_track("tensor_core")
    assert len(core) == 8  # one a run; the first eight runs are shown
    for span, run in zip(core, runs, strict=False):
        assert run.start_ns <= span.start_ns <= span.end_ns <= run.end_ns
    heat = samples.heat
    assert heat is not None
    junction, clock = timeline.series
    assert list(junction.times_ns) == [span.end_ns for span in runs]
    assert junction.values == [round(value, 3) for value in heat.junction_celsius.tolist()]
    assert set(clock.values) == {1000.0}


def test_a_timelines_arrows_are_the_events_of_its_plan() -> None:
    spec = tiny_spec()
    device = SimulatedDevice(spec)
    device.load(package_of(conv_relu_plan(), {"w": WEIGHT}, spec), Path())
    timeline = device.timeline()
    assert [span.category for span in timeline.spans] == [
        "DMA_COPY", "DMA_COPY", "TENSOR_CORE_CONV", "DMA_COPY",
    ]  # fmt: skip
    assert timeline.flows == (Flow(0, 2), Flow(1, 2), Flow(2, 3))


def test_the_trace_of_a_session_keeps_the_format() -> None:
    """Of the Trace Event Format: what every event has, tracks without overlap, times in order."""
    spec = tiny_spec()
    device = SimulatedDevice(spec)
    device.load(package_of(conv_relu_plan(), {"w": WEIGHT}, spec), Path())
    samples = device.measure(runs=30, warmup=0, seed=1)
    session = device.session_timeline(samples, warmup=0, seed=1)
    text = chrome_trace([("one run", device.timeline()), ("thirty runs", session)])
    events = json.loads(text)["traceEvents"]
    threads = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    reached: dict[tuple[int, int], float] = {}
    changed: dict[str, float] = {}
    for event in events:
        assert {"ph", "name", "pid", "tid"} <= event.keys()
        place = (event["pid"], event["tid"])
        if event["ph"] == "X":
            assert place in threads
            assert event["dur"] >= 0
            assert round(event["ts"] - reached.get(place, 0.0), 3) >= 0
            reached[place] = event["ts"] + event["dur"]
        elif event["ph"] == "C":
            assert all(isinstance(value, int | float) for value in event["args"].values())
            assert event["ts"] > changed.get(event["name"], -1.0)
            changed[event["name"]] = event["ts"]
        elif event["ph"] in ("s", "f"):
            assert place in threads
            assert event["pid"] == 1
        else:
            assert event["ph"] == "M"
            assert event["name"] in METADATA
    # the core and two channels worked in both; the session has a track of inferences, too
    assert len(reached) == 3 + 4
    assert set(changed) == {"junction (degC)", "clock (MHz)"}
