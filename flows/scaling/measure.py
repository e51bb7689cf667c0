"""What a few pairs cost and leave behind: the measured ground of docs/scaling.md.

`python -m flows.scaling.measure` runs the stages as commands, the timed ones under two seeds, and
writes docs/scaling/costs.csv and docs/scaling/files.csv. The simulation reads only those files, so
that its answers are the same on every machine.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from flows.benchmarks.pairs import StageCost, measure_command, measure_pair
from flows.project.files import write_beside
from flows.project.places import PairPlaces, Project, find_project
from flows.steps.stage_calls import Stage
from flows.steps.step_reports import folder_of
from stages.report.facts import gather_facts

MODELS = ("bert_base", "mobilenetv2", "ppocr_cls", "ppocr_rec", "resnet50")
HARDWARE = ("npu_tiny", "rk3588_npu", "ethos_u65_512", "nvidia_t4")
COSTS_FILE = "costs.csv"
FILES_FILE = "files.csv"
UNCACHED = frozenset({"compile_environment.json"})
"""Facts of a machine; .dvcignore keeps them out of the store."""
_DIGEST_LETTERS = 16
_Rows = TypeVar("_Rows")


@dataclass(frozen=True, slots=True)
class MeasuredCost:
    """One stage of one pair, run as a command. `p50_ns` is the device's latency as the benchmark
    found it, and zero for the other stages."""

    model: str
    hardware: str
    stage: Stage
    exit_code: int
    cpu_seconds: float
    peak_mib: int
    p50_ns: int = 0


@dataclass(frozen=True, slots=True)
class MeasuredFile:
    """One file that a stage left. `hardware` is empty where all devices share it; equal digests
    are equal bytes."""

    model: str
    hardware: str
    stage: Stage
    seed: int
    name: str
    size_bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class Measured:
    """All that was measured."""

    costs: tuple[MeasuredCost, ...]
    files: tuple[MeasuredFile, ...]


def measure(model: str, hardware: str, out: Path) -> Measured:
    """Runs a pair's stages, then the timed ones with another seed."""
    places = PairPlaces(out, model, hardware)
    costs = [_cost(places, cost) for cost in measure_pair(model, hardware, out)]
    files = [file for stage in Stage for file in _files(places, stage, 0, folder_of(stage, places))]
    if any(cost.stage is Stage.BENCHMARK for cost in costs):
        for stage in (Stage.BENCHMARK, Stage.THERMAL_STRESS):
            first = folder_of(stage, places)
            again = first.with_name(f"{first.name}-again")
            there: list[str | Path] = [places.package, "--hardware", hardware, "--out", again]
            measure_command(stage, [*there, "--seed", "1"])
            files += _files(places, stage, 1, again)
    return Measured(tuple(costs), tuple(files))


def _cost(places: PairPlaces, cost: StageCost) -> MeasuredCost:
    p50_ns = 0
    if cost.stage is Stage.BENCHMARK:
        facts = gather_facts(places.folder, {Stage.BENCHMARK.value})
        p50_ns = facts.benchmark.latency.p50_ns if facts.benchmark is not None else 0
    return MeasuredCost(
        places.model,
        places.hardware,
        cost.stage,
        cost.exit_code,
        round(cost.cpu_seconds, 2),
        cost.peak_mib,
        p50_ns,
    )


def _files(places: PairPlaces, stage: Stage, seed: int, folder: Path) -> Iterator[MeasuredFile]:
    hardware = "" if stage is Stage.NORMALIZE else places.hardware
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in UNCACHED:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGEST_LETTERS]
            name = path.relative_to(folder).as_posix()
            size = path.stat().st_size
            yield MeasuredFile(places.model, hardware, stage, seed, name, size, digest)


def write_measured(measured: Measured, folder: Path) -> None:
    """Writes both tables."""
    folder.mkdir(parents=True, exist_ok=True)
    write_beside(folder / COSTS_FILE, _table(MeasuredCost, measured.costs))
    write_beside(folder / FILES_FILE, _table(MeasuredFile, measured.files))


def _table(kind: type[Any], rows: Iterable[Any]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(kind)])
    writer.writerows(astuple(row) for row in rows)
    return text.getvalue().encode()


def read_measured(folder: Path) -> Measured:
    """Reads both tables."""
    costs = _rows(folder / COSTS_FILE, TypeAdapter(tuple[MeasuredCost, ...]))
    return Measured(costs, _rows(folder / FILES_FILE, TypeAdapter(tuple[MeasuredFile, ...])))


def _rows(path: Path, kind: TypeAdapter[_Rows]) -> _Rows:
    with path.open(newline="", encoding="utf-8") as stream:
        return kind.validate_python(tuple(csv.DictReader(stream)))


def data_folder(project: Project) -> Path:
    """Where the tables lie."""
    return project.root / "docs" / "scaling"


def measure_all(models: Sequence[str], hardware: Sequence[str], folder: Path) -> None:
    """Every model on every device. The tables are written after each model, and keep the rows of
    models that weren't measured this time."""
    with tempfile.TemporaryDirectory() as out:
        for model in models:
            found = [measure(model, device, Path(out)) for device in hardware]
            new = Measured(
                tuple(cost for one in found for cost in one.costs),
                tuple(dict.fromkeys(file for one in found for file in one.files)),
            )
            old = read_measured(folder) if (folder / COSTS_FILE).is_file() else Measured((), ())
            write_measured(_replaced(old, new, model), folder)
            print(f"{model}: {sum(cost.cpu_seconds for cost in new.costs):.1f} CPU s", flush=True)


def _replaced(old: Measured, new: Measured, model: str) -> Measured:
    costs = [cost for cost in old.costs if cost.model != model]
    files = [file for file in old.files if file.model != model]
    return Measured((*costs, *new.costs), (*files, *new.files))


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(prog="python -m flows.scaling.measure", description=__doc__)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--hardware", nargs="+", default=HARDWARE)
    chosen = parser.parse_args()
    folder = data_folder(find_project())
    measure_all(chosen.models, chosen.hardware, folder)
    print(f"written to {folder}")


if __name__ == "__main__":
    main()
