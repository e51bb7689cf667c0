"""What every device does, simulated or real."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from stages.device.functional import Execution
from stages.device.samples import Samples
from stages.device.session import Length
from stages.device.surroundings import Surroundings
from stages.package import Package
from stages.tensors import Array
from stages.trace.spans import Timeline


class Device(Protocol):
    """Something that runs packages."""

    @property
    def name(self) -> str:
        """What it is called in reports."""

    def load(self, package: Package, folder: Path) -> None:
        """Get a package, read from `folder`, ready to run.

        Raises:
            DeviceError: the device can't be reached.
            PackageError: the package isn't for it, or its plan breaks a rule.
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

    def soak(self, length: Length, seed: int, where: Surroundings) -> Samples:
        """Time inferences back to back, the first on a die that stood idle there; `heat` is set.

        A device that went off gives the samples up to then.
        """
