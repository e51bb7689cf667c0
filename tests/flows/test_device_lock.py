"""Real devices behind commands: measured by the stage, one benchmark at a time."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from flows.locks.device_lock import FOLDER_VARIABLE, device_lock, lock_folder
from flows.locks.file_lock import holder_of
from flows.project.models import ModelRequest
from flows.project.params import BenchmarkParams, Params
from flows.project.places import Project
from flows.steps.stage_calls import CompileChoices, benchmark, compile_package, normalize
from stages.errors import DeviceError
from stages.evaluation.gate_rule import Conditions, differences_between
from tests.flows.command import REPOSITORY
from tests.flows.small_models import convolution, save

SPEC = REPOSITORY / "hardware_specs" / "npu_tiny.yaml"


def script(folder: Path, body: str) -> Path:
    """A device's command that appends when it begins and ends to log.txt beside it."""
    path = folder / "device.py"
    path.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib, sys, time\n"
        "log = pathlib.Path(__file__).with_name('log.txt').open('a', buffering=1)\n"
        "log.write('begin\\n')\n"
        "runs = int(sys.argv[sys.argv.index('--runs') + 1])\n"
        f"{body}\n"
        "log.write('end\\n')\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def package(folder: Path) -> Path:
    """A small model's package for npu_tiny."""
    model = save(convolution(), folder / "small.onnx")
    made, normalized = folder / "package", folder / "normalized"
    normalize(ModelRequest("small", str(model), Project(REPOSITORY)), normalized, {}, Params())
    compile_package(normalized, SPEC, made, None, CompileChoices())
    return made


def params(command: Path) -> Params:
    """Five runs on the device behind the command."""
    return Params(benchmark=BenchmarkParams(runs=5, commands={"npu_tiny": str(command)}))


def test_a_real_device_gives_the_latencies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "locks"))
    command = script(
        tmp_path, "print(json.dumps({'latencies_ns': [7_000 + i for i in range(runs)]}))"
    )
    out = tmp_path / "benchmark"
    result = benchmark(package(tmp_path), SPEC, out, params(command))
    report = json.loads((out / "benchmark.json").read_text())
    assert report["latency"]["maximum_ns"] == 7_004
    assert report["conditions"]["device"] == "command device.py"
    assert report["peak_celsius"] is None
    assert result.figure.startswith("P50 7")


def test_a_dead_device_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "locks"))
    command = script(tmp_path, "sys.exit('no board')")
    with pytest.raises(DeviceError, match="no board"):
        benchmark(package(tmp_path), SPEC, tmp_path / "benchmark", params(command))
    assert not (tmp_path / "benchmark").exists()


def test_two_processes_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "locks"))
    code = (
        "import sys, time; from flows.locks.device_lock import device_lock\n"
        "with device_lock(['board']):\n"
        "    log = open(sys.argv[1], 'a', buffering=1)\n"
        "    log.write('begin\\n'); time.sleep(0.2); log.write('end\\n')\n"
    )
    log = tmp_path / "log.txt"
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(log)], cwd=REPOSITORY) for _ in range(2)
    ]
    assert [process.wait() for process in both] == [0, 0]
    assert log.read_text().split() == ["begin", "end", "begin", "end"]


def test_two_devices_run_side_by_side_and_simulated_ones_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "locks"))
    with device_lock(["one"]), device_lock(["other"]), device_lock([]), device_lock([]):
        locks = sorted(lock_folder().iterdir())
        assert len(locks) == 2
        assert all(holder_of(lock) for lock in locks)
    assert not any(holder_of(lock) for lock in locks)


def test_sessions_of_two_devices_are_not_compared() -> None:
    simulated = Conditions("npu", "ab" * 32, 1000, 50, 0)
    real = Conditions("npu", "ab" * 32, 1000, 50, 0, "command board")
    assert differences_between(real, simulated) == (
        "the device: command board here, simulated in the baseline",
    )
