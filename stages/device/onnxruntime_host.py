"""A real device: this machine's processor, through ONNX Runtime.

It runs the model that a package was made from, not the package's plan, so it says what the host
alone would take. Its times are wall-clock: noise of a shared machine is in them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from stages.device.functional import Execution
from stages.device.host import open_session, run_session
from stages.device.samples import Samples
from stages.errors import DeviceError, InputError
from stages.package import Package
from stages.tensors import Array


class OnnxRuntimeHost:
    """Runs one normalised (or exported) model, single-threaded."""

    name = "onnxruntime on the host"

    def __init__(self, model: Path) -> None:
        try:
            content = model.read_bytes()
        except OSError as error:
            raise InputError(
                f"the model can't be read: {error.strerror}",
                where=str(model),
                hint="give the normalised model of the package",
            ) from error
        self._session = open_session(content, str(model))
        self._inputs: dict[str, Array] | None = None

    def load(self, package: Package, folder: Path) -> None:
        """Check that the package and the model have the same inputs, and make timing inputs.

        Raises:
            DeviceError: they haven't.
        """
        declared = {item.name: item for item in self._session.get_inputs()}
        wanted = [binding.name for binding in package.plan.inputs]
        if sorted(declared) != sorted(wanted):
            raise DeviceError(
                f"the package has inputs {', '.join(wanted)}, the model {', '.join(declared)}",
                where=str(folder),
                hint="give the normalised model that the package was compiled from",
            )
        types = package.recipe.graph.types
        self._inputs = {
            name: np.zeros(types[name].shape, types[name].dtype.numpy) for name in wanted
        }

    def infer(self, inputs: Mapping[str, Array]) -> Execution:
        """One inference."""
        names = [item.name for item in self._session.get_outputs()]
        results = run_session(self._session, names, inputs, self.name)
        return Execution(dict(zip(names, results, strict=True)), {})

    def measure(self, runs: int, warmup: int, seed: int) -> Samples:
        """Wall-clock times on zero inputs; the seed changes nothing here."""
        del seed
        if self._inputs is None:
            raise DeviceError("no package is loaded", hint="call `load` first")
        latencies = np.zeros(runs, dtype=np.int64)
        for run in range(-warmup, runs):
            started = time.perf_counter_ns()
            self.infer(self._inputs)
            if run >= 0:
                latencies[run] = max(1, time.perf_counter_ns() - started)
        return Samples(latencies)
