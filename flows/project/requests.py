"""What `recipe run` was asked for, resolved and checked before any work begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flows.project.context import Options
from flows.project.cores import usable_cores
from flows.project.models import ModelRequest, request_model
from flows.project.params import Params
from flows.project.places import PairPlaces, Project, hardware_path, require_writable
from stages.errors import InputError


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A device by its spec's name and file."""

    name: str
    spec: Path


@dataclass(frozen=True, slots=True, order=True)
class Pair:
    """One model on one device; sorted by the model first."""

    model: str
    hardware: str


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Every model is run on every device."""

    models: tuple[ModelRequest, ...]
    devices: tuple[DeviceRequest, ...]
    bindings: Mapping[str, int]
    quantization: Path | None
    out: Path
    jobs: int
    params: Params
    project: Project

    def pairs(self) -> Iterator[Pair]:
        """Models outermost, in the order given."""
        for model in self.models:
            for device in self.devices:
                yield Pair(model.name, device.name)

    def model(self, name: str) -> ModelRequest:
        """The model with this name."""
        return next(model for model in self.models if model.name == name)

    def spec(self, hardware: str) -> Path:
        """The spec's file."""
        return next(device.spec for device in self.devices if device.name == hardware)

    def places(self, pair: Pair) -> PairPlaces:
        """The folders of a pair."""
        return PairPlaces(self.out, pair.model, pair.hardware)

    def baseline(self, pair: Pair) -> Path | None:
        """The accepted facts of a pair, where there are some."""
        path = self.project.baseline(pair.hardware, pair.model)
        return path if path.is_file() else None


def make_request(
    models: Sequence[str],
    hardware: Sequence[str],
    bindings: Mapping[str, int],
    quantization: Path | None,
    out: Path,
    jobs: int | None,
    options: Options,
) -> RunRequest:
    """The request, with everything found that it names.

    Raises:
        InputError: a model, a file or the output folder can't be used, or two share a name.
        HardwareSpecError: a spec is missing or wrong.
    """
    project, params = options.project, options.params
    requested = tuple(request_model(word, project) for word in models)
    devices = tuple(_device(name, project) for name in hardware)
    _refuse_twins("model", [model.name for model in requested])
    _refuse_twins("device", [device.name for device in devices])
    if quantization is not None and not quantization.is_file():
        raise InputError(
            f"no quantisation file {quantization.name!r}",
            where=str(quantization),
            hint="give `--quantization` the path of a file, or leave it out",
        )
    require_writable(out)
    return RunRequest(
        requested,
        devices,
        bindings,
        quantization,
        out,
        jobs or usable_cores(),
        params,
        project,
    )


def _device(name: str, project: Project) -> DeviceRequest:
    from stages.hardware.load import load_spec

    path = hardware_path(name, project)
    return DeviceRequest(load_spec(path).name, path)


def _refuse_twins(what: str, names: Sequence[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InputError(
                f"{count} {what}s are called {name!r}",
                where="the command line",
                hint="results lie in a folder of that name: rename a file, or run them one by one",
            )
