"""`recipe run` as a user runs it: a small real model on two devices, through Prefect."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from flows.project.places import PairPlaces
from stages.errors import Outcome
from tests.flows import small_models
from tests.flows.command import REPOSITORY, Ended, recipe, recipe_inside

DEVICES = ("npu_tiny", "rk3588_npu")
STAGES = ("normalize", "compile", "validate", "benchmark", "gate", "thermal_stress")
MACHINE_FACTS = "compile_environment.json"


def run(out: Path, *more: str | Path, **environment: str) -> Ended:
    """Runs the small model beside `out` on both devices."""
    model = out.parent / "small.onnx"
    if not model.exists():
        small_models.save(small_models.convolution(batch="N", side="H"), model)
    there = [part for name in DEVICES for part in ("--hardware", name)]
    return recipe("run", model, *there, "--bind", "N=1", "H=12", "--out", out, *more, **environment)


@pytest.fixture(scope="module")
def ended(flow_server: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Path]:
    """One run, and its output folder."""
    out = tmp_path_factory.mktemp("run") / "out"
    return run(out), out


def digests(folder: Path) -> dict[str, str]:
    """Every file's digest, but for what tells of the machine."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MACHINE_FACTS
    }


def test_a_run_passes_and_says_what_it_found(ended: tuple[Ended, Path]) -> None:
    result, out = ended
    assert (result.code, result.err) == (Outcome.PASSED, "")
    lines = result.out.splitlines()
    progress = [line for line in lines if line.startswith("[")]
    assert len(progress) == 1 + 2 * 5
    for name in DEVICES:
        assert f"small on {name}" in lines
        assert f"  package and reports: {out / name / 'small'}" in lines
    for stage in STAGES:
        assert sum(line.split()[:1] == [stage] for line in lines) == len(DEVICES)
    for word in ("P50", "P99", "P99/P50", "peak memory", "fallbacks", "baseline accept"):
        assert word in result.out
    assert "\x1b" not in result.out


def test_every_report_lies_where_the_design_says(ended: tuple[Ended, Path]) -> None:
    _, out = ended
    for name in DEVICES:
        places = PairPlaces(out, "small", name)
        for folder in (places.normalized, places.package, places.validation, places.benchmark,
                       places.gate, places.stress):  # fmt: skip
            assert list(folder.iterdir()), folder
        verdict = json.loads((places.validation / "validation.json").read_text())
        assert verdict["verdict"] == "PASS"


def test_one_job_gives_the_same_bytes_as_two(ended: tuple[Ended, Path], tmp_path: Path) -> None:
    _, out = ended
    again = run(tmp_path / "out", "--jobs", "1", OPENBLAS_NUM_THREADS="1")
    assert again.code == Outcome.PASSED
    assert digests(tmp_path / "out") == digests(out)


def test_a_gate_that_fails_ends_the_run_with_its_code_and_reason(
    ended: tuple[Ended, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out = ended
    for name in ("params.yaml", "hardware_specs", "models"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    monkeypatch.setenv("RECIPE_ROOT", str(tmp_path))
    accepted = recipe_inside("baseline", "accept", "small", "--hardware", "npu_tiny", "--out", out)
    assert accepted.code == Outcome.PASSED, accepted.err
    baseline = tmp_path / "baselines" / "npu_tiny" / "small.json"
    facts = json.loads(baseline.read_text())
    facts["latency"]["p99_ns"] = facts["latency"]["p99_ns"] // 2
    baseline.write_text(json.dumps(facts))
    result = run(tmp_path / "out", RECIPE_ROOT=str(tmp_path))
    assert result.code == Outcome.GATE_FAILED
    assert "gate FAIL: P99" in result.out
    assert "small on rk3588_npu" in result.out
    assert "NEW" in result.out


def test_quiet_leaves_the_results(prefect_here: str, tmp_path: Path) -> None:
    model = small_models.save(small_models.convolution(), tmp_path / "small.onnx")
    there = ("--hardware", "npu_tiny", "--out", tmp_path / "out")
    result = recipe_inside("run", model, *there, "--quiet")
    assert result.code == Outcome.PASSED
    assert "[" not in result.out.split()[0]
    assert "small on npu_tiny" in result.out
