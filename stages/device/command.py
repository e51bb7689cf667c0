"""A real device behind a command of the user's.

It is called as `COMMAND PACKAGE_FOLDER --runs N --warmup N --seed N`, and the last line that it
prints on standard output is a JSON object with as many positive integers as there are runs:

    {"latencies_ns": [812345, 812391]}

To compare outputs it is called as `COMMAND PACKAGE_FOLDER --infer INPUTS.npz OUTPUTS.npz`. The
first file is a samples file (`normalizer/sample_files.py`: keys `0/DTYPE/NAME`); it writes the
second, with an array under each output's name.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from stages.device.functional import Execution
from stages.device.samples import Samples
from stages.errors import DeviceError
from stages.normalizer.sample_files import save_samples
from stages.package import Package
from stages.tensors import Array

_OUTPUT_SHOWN = 400


class CommandDevice:
    """Runs packages through a command, which gets `timeout_seconds` for each call."""

    def __init__(self, command: Sequence[str], timeout_seconds: float = 600.0) -> None:
        self._command = tuple(command)
        self._timeout_seconds = timeout_seconds
        self._folder: Path | None = None

    @property
    def name(self) -> str:
        """The command's own name."""
        return f"command {Path(self._command[0]).name}"

    def load(self, package: Package, folder: Path) -> None:
        """Remember the folder: the command reads it."""
        del package
        self._folder = folder

    def infer(self, inputs: Mapping[str, Array]) -> Execution:
        """One inference through files."""
        with tempfile.TemporaryDirectory() as scratch:
            given, wanted = Path(scratch, "inputs.npz"), Path(scratch, "outputs.npz")
            save_samples(given, [inputs])
            self._call("--infer", str(given), str(wanted))
            try:
                with np.load(wanted, allow_pickle=False) as content:
                    return Execution({name: content[name] for name in content.files}, {})
            except (OSError, ValueError) as error:
                raise DeviceError(
                    f"the command left no outputs: {error}",
                    where=self.name,
                    hint="it must write an .npz file to its last argument",
                ) from error

    def measure(self, runs: int, warmup: int, seed: int) -> Samples:
        """The command's own times."""
        options = ("--runs", str(runs), "--warmup", str(warmup), "--seed", str(seed))
        return Samples(_latencies(self._call(*options), runs, self.name))

    def _call(self, *arguments: str) -> str:
        if self._folder is None:
            raise DeviceError("no package is loaded", hint="call `load` first")
        line = [*self._command, str(self._folder), *arguments]
        try:
            done = subprocess.run(
                line, capture_output=True, text=True, timeout=self._timeout_seconds, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise DeviceError(
                f"the device didn't answer within {self._timeout_seconds:g} s",
                where=self.name,
                hint="see whether it is reachable, or raise the timeout",
            ) from error
        except OSError as error:
            raise DeviceError(
                f"the command can't be started: {error.strerror}",
                where=self.name,
                hint="give a program that is on the PATH and may be run",
            ) from error
        if done.returncode:
            said = done.stderr.strip()[-_OUTPUT_SHOWN:] or "nothing on standard error"
            raise DeviceError(
                f"the command ended with code {done.returncode}: {said}",
                where=self.name,
                hint="run it by hand with the same arguments",
            )
        return done.stdout


def _latencies(output: str, runs: int, where: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    lines = output.strip().splitlines()
    try:
        content = json.loads(lines[-1])
        latencies = content["latencies_ns"]
    except (IndexError, ValueError, KeyError, TypeError) as error:
        shown = lines[-1][:_OUTPUT_SHOWN] if lines else "nothing"
        raise DeviceError(
            f"the command's last line isn't samples: {shown}",
            where=where,
            hint='it must print {"latencies_ns": [INTEGER, ...]}',
        ) from error
    whole = isinstance(latencies, list) and all(
        isinstance(item, int) and not isinstance(item, bool) and 0 < item < 2**63
        for item in latencies
    )
    if not whole or len(latencies) != runs:
        count = len(latencies) if isinstance(latencies, list) else "no list of"
        raise DeviceError(
            f"the command gave {count} samples for {runs} runs, or some that aren't positive "
            "integers",
            where=where,
            hint="latencies are whole nanoseconds, one for each run",
        )
    return np.array(latencies, dtype=np.int64)
