"""How long the simulated GPUs' tails are on real models: P99 over mean of 1,000 jittered runs.

`python -m flows.benchmarks.device_tails` compiles ResNet-50 and BERT base for each GPU whose tail
is published and writes docs/device_tails.md; `make bench` does. Plans are cached.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from flows.benchmarks.choice import load_specs
from flows.benchmarks.sections import table, table_row
from flows.calibrating.subjects import SubjectFinder
from flows.project.files import write_beside
from flows.project.places import Project, find_project
from stages.calibration.measurements import Precision
from stages.calibration.plans import compiled_plan
from stages.device.latencies import Latencies
from stages.device.weather import Climate
from stages.hardware.spec import HardwareSpec
from stages.plan.timing import instruction_costs

RUNS = 1_000
SEEDS = (0, 1, 2)
MODELS = ("resnet50", "bert_base_seq128")
BANDS: Mapping[str, tuple[float, float]] = {"nvidia_t4": (1.03, 1.11), "nvidia_a100": (1.01, 1.28)}
"""P99 over mean at batch 1, read once from published tables (MLPerf Inference, Triton)."""

_INTRODUCTION = """\
# How long the simulated device's tails are

Made by `make bench` (`python -m flows.benchmarks.device_tails`): P99 over mean of {runs:,} jittered
runs at nominal clocks, the least and the most of {seeds} seeds. The bands were read once, by hand,
from published tables of these cards at batch 1 (MLPerf Inference, Triton). A phone's tail is
another matter, for it comes of heat: `tests/device/test_tails.py` heats a phone-like spec through
its trip and holds its P99 within 1.8 times its median.

"""
_HEAD = ("spec", "model", "precision", "mean", "P99 over mean", "published", "within")


@dataclass(frozen=True, slots=True)
class Tail:
    """The tail of one model on one device; `ratios` are P99 over mean, one a seed."""

    hardware: str
    model: str
    precision: Precision
    mean_ns: float
    ratios: tuple[float, ...]

    @property
    def within(self) -> bool:
        """Whether every seed's ratio is in the published band."""
        low, high = BANDS[self.hardware]
        return low <= min(self.ratios) and max(self.ratios) <= high


def tail(project: Project, spec: HardwareSpec, model: str, precision: Precision) -> Tail:
    """Compiles a model of the zoo and runs it under each seed's weather.

    Raises:
        RecipeError: there is no such model, or it doesn't compile.
    """
    subject = SubjectFinder(project, project.root).find(model, "models/zoo")
    plan = compiled_plan(subject, precision, spec, project.cache / "calibration").plan
    costs = instruction_costs(plan, spec)
    runs = [Latencies(costs, Climate(spec, seed), RUNS).at(Fraction(1)) for seed in SEEDS]
    ratios = tuple(float(np.percentile(item, 99, method="higher") / item.mean()) for item in runs)
    return Tail(spec.name, model, precision, float(np.mean(runs)), ratios)


def tails_page(tails: Sequence[Tail]) -> str:
    """The page with a row for each."""
    introduction = _INTRODUCTION.format(runs=RUNS, seeds=len(SEEDS))
    return introduction + "\n".join([*table(_HEAD, [_row(item) for item in tails]), ""])


def _row(item: Tail) -> list[str]:
    low, high = BANDS[item.hardware]
    return [
        item.hardware,
        item.model,
        str(item.precision),
        f"{item.mean_ns / 1e6:.3f} ms",
        f"{min(item.ratios):.3f} to {max(item.ratios):.3f}",
        f"{low} to {high}",
        "yes" if item.within else "**no**",
    ]


def _all_tails(project: Project) -> Iterator[Tail]:
    for spec in load_specs(list(BANDS), project):
        for model in MODELS:
            for precision in (Precision.FP16, Precision.INT8):
                found = tail(project, spec, model, precision)
                print(table_row(_row(found)), flush=True)
                yield found


def main() -> None:
    """Measures and writes the page."""
    parser = argparse.ArgumentParser(prog="python -m flows.benchmarks.device_tails")
    parser.add_argument("--docs", type=Path, help="the folder for the page; else docs/")
    chosen = parser.parse_args()
    project = find_project()
    page = (chosen.docs or project.root / "docs") / "device_tails.md"
    write_beside(page, tails_page(list(_all_tails(project))).encode())
    print(f"written to {page}")


if __name__ == "__main__":
    main()
