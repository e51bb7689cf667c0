"""A device behind a command: what it prints, and every way in which it can fail."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from stages.device.command import CommandDevice
from stages.errors import DeviceError
from tests.device.packages import package_of
from tests.device.plans import conv_relu_plan

WEIGHTS = {"w": np.zeros((8, 8, 3, 3), np.float16)}


def device(tmp_path: Path, script: str, timeout_seconds: float = 20.0) -> CommandDevice:
    file = tmp_path / "runner.py"
    file.write_text(script)
    made = CommandDevice((sys.executable, str(file)), timeout_seconds)
    made.load(package_of(conv_relu_plan(), WEIGHTS), tmp_path)
    return made


def test_samples_come_from_the_last_line(tmp_path: Path) -> None:
    script = """
import json, sys
folder, runs = sys.argv[1], int(sys.argv[sys.argv.index("--runs") + 1])
print("warming up", folder)
print(json.dumps({"latencies_ns": list(range(100, 100 + runs))}))
"""
    samples = device(tmp_path, script).measure(4, 1, 0)
    assert samples.latencies_ns.tolist() == [100, 101, 102, 103]
    assert samples.heat is None


def test_outputs_come_through_files(tmp_path: Path) -> None:
    script = """
import sys, numpy as np
given = np.load(sys.argv[3])
np.savez(sys.argv[4], y=given["0/f32/x"] * 2)
"""
    result = device(tmp_path, script).infer({"x": np.arange(3, dtype=np.float32)})
    assert result.outputs["y"].tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("", "last line isn't samples: nothing"),
        ("print('hello')", "last line isn't samples: hello"),
        ("print('{}')", "last line isn't samples"),
        ("print('{\"latencies_ns\": [1, 2]}')", "2 samples for 3 runs"),
        ("print('{\"latencies_ns\": [1, 2, 0]}')", "aren't positive"),
        ("print('{\"latencies_ns\": [1, 2, 3.5]}')", "aren't positive"),
        ("print('{\"latencies_ns\": 7}')", "no list of samples"),
        ("import sys; sys.exit('no such board')", "code 1: no such board"),
    ],
)
def test_what_isnt_samples_is_refused(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        device(tmp_path, script).measure(3, 0, 0)


def test_a_command_that_hangs_is_left(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"within 0\.5 s"):
        device(tmp_path, "import time; time.sleep(60)", 0.5).measure(3, 0, 0)


def test_a_command_that_isnt_there_is_named(tmp_path: Path) -> None:
    missing = CommandDevice((str(tmp_path / "nothing"),))
    missing.load(package_of(conv_relu_plan(), WEIGHTS), tmp_path)
    with pytest.raises(DeviceError, match="can't be started"):
        missing.measure(1, 0, 0)
