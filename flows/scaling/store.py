"""The store of docs/scaling.md: what contents and nights add to DVC's cache and its remote."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from flows.scaling.load import Assumptions
from flows.scaling.measure import Measured, MeasuredFile
from flows.scaling.queue import Answers
from flows.steps.stage_calls import Stage

TIMED = frozenset({Stage.BENCHMARK, Stage.GATE, Stage.THERMAL_STRESS})
WEIGHTS = frozenset({"weights.safetensors", "constants.safetensors"})
STEP_BYTES = 4096
"""A step's run-cache entry and its folder listing: two small files."""
STEP_OBJECTS = 2


@dataclass(frozen=True, slots=True)
class Volume:
    """Bytes and objects (files of the cache, or keys of a bucket)."""

    size_bytes: float = 0.0
    objects: float = 0.0

    def __add__(self, other: Volume) -> Volume:
        """Both."""
        return Volume(self.size_bytes + other.size_bytes, self.objects + other.objects)

    def __mul__(self, times: float) -> Volume:
        """So many."""
        return Volume(self.size_bytes * times, self.objects * times)


def total(volumes: Iterable[Volume]) -> Volume:
    """All of them."""
    return sum(volumes, Volume())


@dataclass(frozen=True, slots=True)
class ModelVolumes:
    """What one model on all devices puts into the store.

    `copies`: everything, each device's files counted, as where each run keeps its own. `content`:
    the same with equal files once. `seed`: what new seeds change. `compiler`: what a new compiler
    changes.
    """

    copies: Volume
    content: Volume
    seed: Volume
    compiler: Volume


def distinct_copies(digests: Sequence[str], devices: int) -> float:
    """Of a file made for each of `devices` devices, how many differ.

    A straight line from what was measured: all equal is one copy, all different is `devices`.
    """
    if len(digests) < 2:
        return float(devices)
    distinct = len(set(digests))
    return 1 + (devices - 1) * (distinct - 1) / (len(digests) - 1)


def model_volumes(measured: Measured, model: str, assumptions: Assumptions) -> ModelVolumes:
    """The volumes of one measured model."""
    own = [file for file in measured.files if file.model == model]
    first = [file for file in own if file.seed == 0]
    by_place = {(file.stage, file.hardware, file.name): file.digest for file in first}
    moved = [
        file
        for file in own
        if file.seed and by_place.get((file.stage, file.hardware, file.name)) != file.digest
    ]
    gates = [file for file in first if file.stage is Stage.GATE]
    compiled = [
        file
        for file in first
        if file.stage is not Stage.NORMALIZE
        and not (assumptions.compiler_keeps_weights and file.name in WEIGHTS)
    ]
    devices, steps = assumptions.devices, assumptions.steps(1)
    timed_steps = len(TIMED) * devices
    return ModelVolumes(
        _copies(first, devices) + _entries(steps),
        _distinct(first, devices) + _entries(steps),
        _distinct([*moved, *gates], devices) + _entries(timed_steps),
        _distinct(compiled, devices) + _entries(steps),
    )


def _entries(steps: int) -> Volume:
    return Volume(STEP_BYTES, STEP_OBJECTS) * steps


def _by_name(files: Iterable[MeasuredFile]) -> dict[tuple[Stage, str], list[MeasuredFile]]:
    found: dict[tuple[Stage, str], list[MeasuredFile]] = defaultdict(list)
    for file in files:
        found[file.stage, file.name].append(file)
    return found


def _copies(files: Sequence[MeasuredFile], devices: int) -> Volume:
    volumes = []
    for same in _by_name(files).values():
        size = fmean(file.size_bytes for file in same)
        volumes.append(Volume(size, 1) * (devices if same[0].hardware else 1))
    return total(volumes)


def _distinct(files: Sequence[MeasuredFile], devices: int) -> Volume:
    volumes = []
    for same in _by_name(files).values():
        size = fmean(file.size_bytes for file in same)
        digests = [file.digest for file in same]
        volumes.append(
            Volume(size, 1) * (distinct_copies(digests, devices) if same[0].hardware else 1)
        )
    return total(volumes)


@dataclass(frozen=True, slots=True)
class Growth:
    """What a mean day adds, and what the present matrix alone takes.

    `commits`, `seeds` and `compilers` are the parts of the day with equal contents stored once;
    `copies` is the day where each run keeps all of its files.
    """

    live: Volume
    commits: Volume
    seeds: Volume
    compilers: Volume
    copies: Volume

    @property
    def day(self) -> Volume:
        """All that a day adds."""
        return self.commits + self.seeds + self.compilers


def growth(
    measured: Measured, assumptions: Assumptions, fleet: Sequence[str], answers: Answers, days: int
) -> Growth:
    """The growth in a simulated span of so many days."""
    volumes = {name: model_volumes(measured, name, assumptions) for name, _ in assumptions.profiles}
    by_model = [volumes[profile] for profile in fleet]
    changed = sum(night.compiler_changed for night in answers.nights)
    asked = answers.asked_steps / assumptions.steps(1)
    every = total(volume.copies for volume in by_model)
    share = 1 / days
    return Growth(
        live=total(volume.content for volume in by_model),
        commits=total(by_model[model].content for model in answers.new_graphs) * share,
        seeds=total(volume.seed for volume in by_model) * ((len(answers.nights) - changed) * share),
        compilers=total(volume.compiler for volume in by_model) * (changed * share),
        copies=(every * len(answers.nights) + every * (asked / len(by_model))) * share,
    )
