"""Trace files against the format's rules: those of real packages, and the rules themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stages.compiler.pipeline import compile_graph
from stages.device.session import Length
from stages.device.simulated import SimulatedDevice
from stages.device.surroundings import Surroundings
from stages.hardware.load import load_spec
from stages.hardware.spec import SyncMode
from stages.package import DecidedFacts, Manifest, Package
from stages.recipe.onnx_import import import_model
from stages.trace.chrome import chrome_trace
from stages.trace.spans import Flow
from tests.compiler.campaign import model_of
from tests.hardware.specs import SPECS
from tests.trace.test_timeline import TIMELINE
from tests.trace.trace_rules import faults

Trace = dict[str, Any]


@pytest.mark.parametrize("mode", SyncMode)
@pytest.mark.parametrize("name", ["npu_tiny", "rk3588_npu", "edge_tpu", "nvidia_t4"])
def test_what_a_device_writes_keeps_the_rules(name: str, mode: SyncMode) -> None:
    spec = load_spec(SPECS / f"{name}.yaml")
    spec = replace(spec, driver=replace(spec.driver, sync_mode=mode))
    for seed in (1, 5, 8):
        compiled = compile_graph(*import_model(model_of(seed).model), spec)
        manifest = Manifest("m", "1" * 64, spec.name, spec.version, spec.digest, "0.1.0")
        device = SimulatedDevice(spec)
        decided = DecidedFacts(packings=compiled.packings)
        package = Package(
            compiled.recipe, compiled.plan, compiled.weights, manifest, decided=decided
        )
        device.load(package, Path())
        samples = device.measure(runs=20, warmup=3, seed=seed)
        hot = device.soak(Length(20), seed, Surroundings(96.0 if spec.thermal.trips else None))
        text = chrome_trace(
            [
                ("one run", device.timeline()),
                ("a session", device.session_timeline(samples, 3, seed)),
                ("a hot one", device.session_timeline(hot, 0, seed)),
            ]
        )
        assert faults(text) == []


def sound() -> Trace:
    trace: Trace = json.loads(chrome_trace([("one", replace(TIMELINE, flows=(Flow(0, 2),)))]))
    assert faults(json.dumps(trace)) == []
    return trace


def first(trace: Trace, phase: str) -> dict[str, Any]:
    found: dict[str, Any] = next(item for item in trace["traceEvents"] if item["ph"] == phase)
    return found


def nameless(trace: Trace) -> None:
    trace["traceEvents"] = [e for e in trace["traceEvents"] if e["name"] != "thread_name"]


def overlapping(trace: Trace) -> None:
    first(trace, "X")["dur"] += 1000


def backwards(trace: Trace) -> None:
    first(trace, "f")["ts"] = 0.0


def dangling(trace: Trace) -> None:
    trace["traceEvents"].remove(first(trace, "f"))


def elsewhere(trace: Trace) -> None:
    first(trace, "s")["ts"] = 0.005


def unnumbered(trace: Trace) -> None:
    first(trace, "X")["ts"] = float("nan")


def negative(trace: Trace) -> None:
    first(trace, "X")["dur"] = -1


def between(trace: Trace) -> None:
    first(trace, "X")["ts"] += 0.0004


def worded(trace: Trace) -> None:
    counter = {"ph": "C", "name": "c", "pid": 1, "tid": 0, "ts": 0, "args": {"c": "warm"}}
    trace["traceEvents"].append(counter)


def twice(trace: Trace) -> None:
    trace["traceEvents"].append(dict(first(trace, "M")))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (nameless, "has no name"),
        (overlapping, "overlap on"),
        (backwards, "goes back in time"),
        (dangling, "has the ends ['s']"),
        (elsewhere, "ends in no slice"),
        (unnumbered, "NaN isn't JSON"),
        (negative, "dur -1"),
        (between, "ts 0.0104"),
        (worded, "counter c"),
        (twice, "is said twice"),
    ],
)
def test_each_rule_is_broken_by_something(damage: Callable[[Trace], None], said: str) -> None:
    trace = sound()
    damage(trace)
    assert said in "\n".join(faults(json.dumps(trace)))
