"""What every device does, simulated or real."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stages.device.functional import Execution
from stages.package import Package
from stages.tensors import Array
from stages.trace.spans import Timeline

Latencies = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HeatHistory:
    """How warm each run was: the die at the run's end, and the slowest clock divider in it.

    `shutdown_run` is the run in which the die became critical and the device went off.
    """

    junction_celsius: NDArray[np.float64]
    clock_dividers: NDArray[np.int64]
    ambient_celsius: float
    shutdown_run: int | None = None


@dataclass(frozen=True, slots=True)
class Samples:
    """`latencies_ns` (int64[runs]) of timed runs, after the warm-up; `heat` where it is known."""

    latencies_ns: Latencies
    heat: HeatHistory | None = None


class Device(Protocol):
    """Something that runs packages."""

    @property
    def name(self) -> str:
        """What it is called in reports."""

    def load(self, package: Package, folder: Path) -> None:
        """Get a package, read from `folder`, ready to run.

        Raises:
            DeviceError: the device can't be reached, or the package isn't for it.
        """

    def infer(self, inputs: Mapping[str, Array]) -> Execution:
        """One inference on logical arrays by name.

        Raises:
            InputError: an input is missing or of another shape or type.
            DeviceError: the device failed.
        """

    def measure(self, runs: int, warmup: int, seed: int) -> Samples:
        """Time `runs` inferences after `warmup` more.

        Raises:
            DeviceError: the device failed.
        """


class TracedDevice(Device, Protocol):
    """A device that can say what its engines did."""

    def timeline(self) -> Timeline:
        """One run without jitter."""


class HeatedDevice(Device, Protocol):
    """A device whose surroundings can be heated."""

    def soak(self, runs: int, seed: int, junction_celsius: float) -> Samples:
        """Time `runs` inferences, the first on an idle die of that temperature; `heat` is set.

        A device that went off gives the samples up to then.
        """
