"""Ctrl-C in the middle of each stage: exit code 130, and nothing half-written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.project.places import PairPlaces
from stages.errors import Outcome
from tests.flows import small_models
from tests.flows.command import recipe_inside, started


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> PairPlaces:
    """A model whose stages take seconds, normalised and compiled."""
    folder = tmp_path_factory.mktemp("deep")
    model = small_models.save(small_models.deep(), folder / "deep.onnx")
    places = PairPlaces(folder / "out", "deep", "npu_tiny")
    assert recipe_inside("normalize", model, "--out", places.normalized).code == 0
    assert (
        recipe_inside(
            "compile", places.normalized, "--hardware", "npu_tiny", "--out", places.package
        ).code
        == 0
    )
    return places


def interrupt(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Ctrl-C, as a terminal sends it: to the whole process group."""
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


@pytest.mark.parametrize("stage", ["normalize", "compile", "validate", "benchmark", "stress"])
def test_a_single_stage_leaves_nothing(stage: str, deep: PairPlaces, tmp_path: Path) -> None:
    out = tmp_path / "out" / "result"
    there = ["--hardware", "npu_tiny"]
    arguments = {
        "normalize": [deep.out.parent / "deep.onnx"],
        "compile": [deep.normalized, *there],
        "validate": [deep.package, *there, "--normalized", deep.normalized],
        "benchmark": [deep.package, *there, "--runs", "200000"],
        "stress": [deep.package, *there, "--runs", "200000"],
    }[stage]
    with started(stage, *arguments, "--out", out) as process:
        while not out.parent.exists() and process.poll() is None:
            time.sleep(0.005)  # made right before the stage begins
        time.sleep(0.2)
        code, err = interrupt(process)
    assert code == Outcome.INTERRUPTED, err
    assert "Traceback" not in err
    assert not list(out.parent.iterdir())


LOST = """
import signal, sys, time
from flows.running.interrupts import hear_again

sys.unraisablehook = hear_again

class Finalised:
    def __del__(self):
        WHAT

try:
    Finalised()
    time.sleep(20)
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.mark.parametrize(
    ("what", "code"),
    [("signal.raise_signal(signal.SIGINT)", 7), ("time.sleep = lambda _: None; 1 / 0", 0)],
)
def test_an_interrupt_that_a_finaliser_drops_comes_again(what: str, code: int) -> None:
    program = LOST.replace("WHAT", what)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == code, ended.stderr
    assert ("ZeroDivisionError" in ended.stderr) == (code == 0)
    assert "KeyboardInterrupt" not in ended.stderr


@pytest.mark.parametrize("after", ["normalize", "compile"])
def test_a_run_keeps_what_was_finished_and_nothing_else(
    after: str, flow_server: str, deep: PairPlaces, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    model = deep.out.parent / "deep.onnx"
    with started("run", model, "--hardware", "npu_tiny", "--out", out) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if f"] {after} " in line:
                break
        time.sleep(0.3)
        code, err = interrupt(process)
    assert code == Outcome.INTERRUPTED, err
    assert "Traceback" not in err
    assert "interrupted" in err
    assert not [path for path in out.rglob("*") if "partial" in path.name]
    assert (out / "normalized" / "deep" / "normalize.json").exists()
    assert (out / "npu_tiny").exists() == (after == "compile")


def test_sigterm_ends_a_run_alike(flow_server: str, deep: PairPlaces, tmp_path: Path) -> None:
    model = deep.out.parent / "deep.onnx"
    with started("run", model, "--hardware", "npu_tiny", "--out", tmp_path / "out") as process:
        assert process.stdout is not None
        assert "] normalize " in process.stdout.readline()
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert process.returncode == Outcome.INTERRUPTED, err
    assert not [path for path in tmp_path.rglob("*") if "partial" in path.name]


def processes_with(tag: str) -> list[int]:
    """Processes whose environment holds the tag."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and tag.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue  # it ended, or isn't ours
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks processes up in /proc")
def test_a_killed_run_leaves_no_process_and_nothing_half_written(
    flow_server: str, deep: PairPlaces, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = f"RUN_OF={tmp_path}"
    monkeypatch.setenv("RUN_OF", str(tmp_path))
    out = tmp_path / "out"
    model = deep.out.parent / "deep.onnx"
    with started("run", model, "--hardware", "npu_tiny", "--out", out) as process:
        assert process.stdout is not None
        assert "] normalize " in process.stdout.readline()
        time.sleep(0.5)
        process.kill()
        process.wait()
        deadline = time.monotonic() + 30
        while processes_with(tag) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert processes_with(tag) == []
    assert not [path for path in out.rglob("*") if "partial" in path.name]
    assert (out / "normalized" / "deep" / "normalize.json").exists()
