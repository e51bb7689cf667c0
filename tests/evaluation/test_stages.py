"""The four judging stages on a package made by hand, from files to files."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from stages.benchmark import benchmark
from stages.errors import InputError, PackageError
from stages.evaluation.verdict import Verdict
from stages.gate import GateLimits, accept_baseline, gate
from stages.hardware.load import load_spec
from stages.normalizer.sample_files import save_samples
from stages.package import Package, write_package
from stages.plan.instructions import Plan
from stages.plan.timing import plan_cycles
from stages.thermal_stress import Length, StressLimits, Surroundings, thermal_stress
from stages.validate import ValidationLimits, validate
from tests.device.packages import package_of
from tests.device.plans import conv_relu_at

HARDWARE = Path(__file__).parents[2] / "hardware_specs" / "npu_tiny.yaml"
HOT = Surroundings(junction_celsius=85.0)
RANDOM = np.random.default_rng(1)
WEIGHT = (RANDOM.standard_normal((8, 8, 3, 3)) * 0.2).astype(np.float16)
SAMPLES = [{"x": RANDOM.standard_normal((1, 8, 6, 6)).astype(np.float32)} for _ in range(2)]


def conv_relu_plan() -> Plan:
    return conv_relu_at(
        ddr=0x1000,
        sram=0x400,
        hardware="npu_tiny",
        queues=("tensor_core", "vector", "host", "dma0"),
    )


def packed(plan: Plan | None = None) -> Package:
    return package_of(plan or conv_relu_plan(), {"w": WEIGHT}, load_spec(HARDWARE))


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A package, and the normalised model that it was made from."""
    package, normalized = tmp_path / "package", tmp_path / "normalized"
    write_package(package, packed())
    normalized.mkdir()
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["t"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["t"], ["y"]),
    ]
    shape = [1, 8, 6, 6]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(WEIGHT.astype(np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, normalized / "model.onnx")
    save_samples(normalized / "samples.npz", SAMPLES)
    return package, normalized


def read(path: Path) -> dict[str, object]:
    return json.loads(path.read_text())


def test_a_sound_package_passes(folders: tuple[Path, Path], tmp_path: Path) -> None:
    package, normalized = folders
    result = validate(package, normalized, HARDWARE, tmp_path / "v", limits=ValidationLimits())
    assert result.verdict is Verdict.PASS, result.reasons
    report = read(tmp_path / "v" / "validation.json")
    assert report["verdict"] == "PASS"
    assert report["fused_groups"] == 1
    assert report["fallbacks"] == []
    outputs = report["outputs"]
    assert isinstance(outputs, list)
    assert [(item["output"], item["sample"]) for item in outputs] == [("y", 0), ("y", 1)]
    # x 576 bytes, y 576, w 1,152 from 0x400 on: all live at once
    memory = {item["memory"]: item for item in report["memory"]}  # type: ignore[attr-defined]
    assert memory["sram"]["peak_bytes"] == memory["sram"]["lower_bound_bytes"] == 2_304


def test_a_wrong_weight_fails_with_figures(folders: tuple[Path, Path], tmp_path: Path) -> None:
    package, normalized = folders
    wrong = WEIGHT.copy()
    wrong[0] = -wrong[0]
    write_package(package, replace(packed(), weights={"w": wrong}))
    result = validate(package, normalized, HARDWARE, tmp_path / "v", limits=ValidationLimits())
    assert result.verdict is Verdict.FAIL
    assert result.reasons[0].startswith("output 'y' of sample 0: cosine 0.")


def test_a_broken_plan_rule_fails_before_anything_runs(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    package, normalized = folders
    plan = conv_relu_plan()
    unawaited = tuple(item for item in plan.instructions if item.event != 1)
    write_package(package, packed(replace(plan, instructions=unawaited)))
    result = validate(package, normalized, HARDWARE, tmp_path / "v", limits=ValidationLimits())
    assert result.verdict is Verdict.FAIL
    assert result.reasons[0].startswith("plan-")
    assert result.outputs == ()


def test_a_package_for_another_spec_is_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    package, normalized = folders
    changed = tmp_path / "npu_tiny.yaml"
    changed.write_text(HARDWARE.read_text().replace("clock: 500 MHz", "clock: 400 MHz"))
    out = tmp_path / "out"
    with pytest.raises(PackageError, match="changed since the package was made"):
        validate(package, normalized, changed, out, limits=ValidationLimits())
    with pytest.raises(PackageError):
        benchmark(package, changed, out, runs=10, warmup=0, seed=0)
    assert not out.exists()


def test_the_benchmark_reports_where_time_went(folders: tuple[Path, Path], tmp_path: Path) -> None:
    package, _ = folders
    result = benchmark(package, HARDWARE, tmp_path / "b", runs=200, warmup=5, seed=3)
    report = read(tmp_path / "b" / "benchmark.json")
    with (tmp_path / "b" / "samples.csv").open() as file:
        rows = list(csv.DictReader(file))
    ordered = sorted(int(row["latency_ns"]) for row in rows)
    assert [int(row["run"]) for row in rows] == list(range(200))
    assert report["latency"]["p99_ns"] == ordered[197]  # type: ignore[index]
    assert report["latency"]["p50_ns"] == ordered[99]  # type: ignore[index]
    roof = report["roofline"]
    assert roof["ratio"] == round(roof["calm_ns"] / roof["bound_ns"], 3)  # type: ignore[index]
    # 20,736 MAC at 128 a cycle of 2 ns; 2,304 bytes at 4 GB/s
    assert (roof["compute_ns"], roof["memory_ns"]) == (324, 576)  # type: ignore[index]
    trace = json.loads((tmp_path / "b" / "trace.json").read_text())
    calm, session = (
        [
            event["ts"] + event["dur"]
            for event in trace["traceEvents"]
            if event["ph"] == "X" and event["pid"] == process
        ]
        for process in (1, 2)
    )
    assert max(calm) * 1000 == pytest.approx(result.roofline.calm_ns)
    assert max(session) * 1000 == pytest.approx(sum(ordered))
    assert result.counters.total_ns == result.roofline.calm_ns
    for engine in result.engines.values():
        spent = engine.busy_ns + sum(engine.stalled_ns.values()) + engine.idle_ns
        assert spent == result.roofline.calm_ns
    with (tmp_path / "b" / "groups.csv").open() as file:
        (group,) = csv.DictReader(file)
    assert (group["group"], group["macs"]) == ("conv", "20736")
    with (tmp_path / "b" / "operators.csv").open() as file:
        operators = {row["operator"]: row for row in csv.DictReader(file)}
    assert set(operators) == {"conv", "relu"}
    assert operators["conv"]["busy_ns"] == group["tensor_core_ns"]


def test_the_compilers_cycles_are_the_devices(tmp_path: Path) -> None:
    plan = conv_relu_plan()
    counted = plan_cycles(plan, load_spec(HARDWARE))
    package = tmp_path / "package"
    for cycles in (counted, counted + 1):
        made = packed()
        decided = replace(made.decided, instructions=len(plan.instructions), cycles=cycles)
        write_package(package, replace(made, decided=decided))
        if cycles == counted:
            benchmark(package, HARDWARE, tmp_path / "b", runs=10, warmup=0, seed=0)
            continue
        with pytest.raises(PackageError) as refused:
            benchmark(package, HARDWARE, tmp_path / "c", runs=10, warmup=0, seed=0)
        assert f"counted {cycles:,} cycles" in refused.value.problem
        assert f"takes {counted:,}" in refused.value.problem
        assert "compile the model again" in refused.value.hint
        assert not (tmp_path / "c").exists()


def test_stages_write_the_same_bytes_twice(folders: tuple[Path, Path], tmp_path: Path) -> None:
    package, normalized = folders
    limits = StressLimits()
    for name in ("one", "two"):
        out = tmp_path / name
        validate(package, normalized, HARDWARE, out / "v", limits=ValidationLimits())
        benchmark(package, HARDWARE, out / "b", runs=50, warmup=5, seed=3)
        gate(out / "b", out / "v", None, out / "g", limits=GateLimits())
        thermal_stress(
            package, HARDWARE, out / "s", length=Length(50), seed=1, where=HOT, limits=limits
        )
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*.*"))
    assert [str(file) for file in files] == [
        "b/benchmark.json", "b/groups.csv", "b/metrics.json", "b/operators.csv", "b/samples.csv",
        "b/trace.json", "g/gate.json", "g/metrics.json", "s/metrics.json", "s/stress.csv",
        "s/stress.json", "v/metrics.json", "v/validation.json",
    ]  # fmt: skip
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_the_gate_from_new_to_accepted_to_failed(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    package, normalized = folders
    baseline = tmp_path / "baselines" / "cls.json"
    validate(package, normalized, HARDWARE, tmp_path / "v", limits=ValidationLimits())
    benchmark(package, HARDWARE, tmp_path / "b", runs=100, warmup=0, seed=3)
    first = gate(tmp_path / "b", tmp_path / "v", baseline, tmp_path / "g", limits=GateLimits())
    assert first.verdict is Verdict.NEW
    accept_baseline(tmp_path / "b", tmp_path / "v", baseline)
    samples = (tmp_path / "baselines" / "cls.samples.csv").read_text()
    assert samples == (tmp_path / "b" / "samples.csv").read_text()
    second = gate(tmp_path / "b", tmp_path / "v", baseline, tmp_path / "g", limits=GateLimits())
    assert second.verdict is Verdict.PASS
    assert "100.0 %" in second.reasons[0]
    # the same baseline, had it been 6 % faster
    content = read(baseline)
    content["latency"]["p99_ns"] = content["latency"]["p99_ns"] * 100 // 106  # type: ignore[index]
    baseline.write_text(json.dumps(content))
    third = gate(tmp_path / "b", tmp_path / "v", baseline, tmp_path / "g", limits=GateLimits())
    assert third.verdict is Verdict.FAIL
    assert read(tmp_path / "g" / "gate.json")["verdict"] == "FAIL"
    # and had it fused more
    content["fused_groups"] = 2
    baseline.write_text(json.dumps(content))
    fourth = gate(tmp_path / "b", tmp_path / "v", baseline, tmp_path / "g", limits=GateLimits())
    assert fourth.verdict is Verdict.FAIL
    assert fourth.reasons == (
        third.reasons[0],
        "1 fused groups, the baseline has 2: a fusion was lost; compare the recipes with "
        "`recipe show`, or accept it with `recipe baseline accept`",
    )


def test_only_a_validated_package_becomes_a_baseline(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    package, normalized = folders
    strict = ValidationLimits(min_cosine=1.0, max_relative_error=1e-9)
    failed = validate(package, normalized, HARDWARE, tmp_path / "v", limits=strict)
    assert failed.verdict is Verdict.FAIL
    benchmark(package, HARDWARE, tmp_path / "b", runs=10, warmup=0, seed=3)
    with pytest.raises(InputError, match="says FAIL"):
        accept_baseline(tmp_path / "b", tmp_path / "v", tmp_path / "baseline.json")
    assert not (tmp_path / "baseline.json").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the report: invalid json"),
        ("[]", "the report"),
        ('{"package": "x"}', "conditions: field required"),
    ],
)
def test_a_damaged_report_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "benchmark.json").write_text(text)
    with pytest.raises(InputError, match=message):
        gate(tmp_path, tmp_path, None, tmp_path / "g", limits=GateLimits())
    assert not (tmp_path / "g").exists()


def test_the_hot_run_keeps_its_history(folders: tuple[Path, Path], tmp_path: Path) -> None:
    package, _ = folders
    result = thermal_stress(
        package,
        HARDWARE,
        tmp_path / "s",
        length=Length(100),
        seed=1,
        where=HOT,
        limits=StressLimits(),
    )
    with (tmp_path / "s" / "stress.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 100
    assert list(rows[0]) == ["run", "latency_ns", "junction_celsius", "clock_divider"]
    assert max(float(row["junction_celsius"]) for row in rows) <= result.peak_celsius
    report = read(tmp_path / "s" / "stress.json")
    assert sum(report["runs_by_divider"].values()) == 100  # type: ignore[attr-defined]


def test_a_hot_run_above_the_critical_temperature_is_refused(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="goes off at"):
        thermal_stress(
            folders[0],
            HARDWARE,
            tmp_path / "s",
            length=Length(1),
            seed=0,
            where=Surroundings(150.0),
            limits=StressLimits(),
        )
