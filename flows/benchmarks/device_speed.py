"""What the simulated device costs: CPU seconds of its clock, its sessions and its arithmetic.

`python -m flows.benchmarks.device_speed` measures and writes docs/device_speed.md; `make bench`
does. Everything runs in this one process on one thread: what is measured is the device, not what
reads and writes packages.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from flows.benchmarks.choice import bench_parser, load_specs
from flows.benchmarks.sections import table, table_row
from flows.project.files import write_beside
from flows.project.places import find_project
from models.zoo import build
from stages.compiler.pipeline import compile_graph
from stages.device.admission import admit
from stages.device.session import Length
from stages.device.simulated import SimulatedDevice
from stages.device.surroundings import USUAL
from stages.hardware.spec import HardwareSpec
from stages.package import DecidedFacts, Manifest, Package
from stages.plan.timing import plan_cycles
from stages.recipe.onnx_import import import_model
from stages.tensors import Array

MODELS = ("resnet18", "resnet50", "resnet101", "vit_base", "bert_large_seq128", "vit_large")
HARDWARE = ("npu_tiny", "rk3588_npu", "nvidia_t4")
RUNS = 1_000
HOUR_NS = 3_600 * 10**9
_REPEATS = 3
_PER_INSTRUCTION = 1_000_000
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Speed:
    """CPU seconds of one package on one device; `timed` prices the plan and times it once."""

    model: str
    hardware: str
    instructions: int
    judged: float
    timed: float
    runs: float
    soak: float
    soaked_runs: int
    ready: float
    functional: float


def cpu_seconds(work: Callable[[], Result]) -> tuple[float, Result]:
    """CPU seconds of this process, and what came of it."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def least_seconds(work: Callable[[], object]) -> float:
    """The least of a few: what else the machine does only adds."""
    return min(cpu_seconds(work)[0] for _ in range(_REPEATS))


def measure(model: str, spec: HardwareSpec) -> Speed:
    """Compile a model of the zoo, and let the device do everything that it does."""
    graph, constants = import_model(build(model))
    compiled = compile_graph(graph, constants, spec)
    manifest = Manifest(model, "0" * 64, spec.name, spec.version, spec.digest, "0")
    decided = DecidedFacts(packings=compiled.packings)
    package = Package(compiled.recipe, compiled.plan, compiled.weights, manifest, decided=decided)
    device = SimulatedDevice(spec)
    device.load(package, Path())
    soak, samples = cpu_seconds(lambda: device.soak(Length(duration_ns=HOUR_NS), 0, USUAL))
    feeds = _feeds(package)
    ready, _ = cpu_seconds(lambda: device.infer(feeds))
    functional = least_seconds(lambda: device.infer(feeds))
    return Speed(
        model=model,
        hardware=spec.name,
        instructions=len(compiled.plan.instructions),
        judged=least_seconds(lambda: admit(package, spec)),
        timed=least_seconds(lambda: plan_cycles(compiled.plan, spec)),
        runs=least_seconds(lambda: device.measure(RUNS, 0, 0)),
        soak=soak,
        soaked_runs=samples.latencies_ns.size,
        ready=ready - functional,
        functional=functional,
    )


def _feeds(package: Package) -> dict[str, Array]:
    """Zeros and ones for every input: its numbers don't change what the arithmetic costs."""
    random = np.random.default_rng(0)
    return {
        binding.name: random.integers(0, 2, binding.region.shape).astype(binding.region.dtype.numpy)
        for binding in package.plan.inputs
    }


_HEAD = (
    "model", "hardware", "instructions", "judging the plan", "timing it once", "µs an instruction",
    "1,000 jittered runs", "an hour's soak", "inferences in it", "loading it to compute",
    "computing one inference",
)  # fmt: skip


def row(speed: Speed) -> list[str]:
    """One line of the table."""
    each = speed.timed * _PER_INSTRUCTION / speed.instructions
    return [
        speed.model,
        speed.hardware,
        f"{speed.instructions:,}",
        f"{speed.judged:.2f} s",
        f"{speed.timed:.3f} s",
        f"{each:.2f}",
        f"{speed.runs:.2f} s",
        f"{speed.soak:.2f} s",
        f"{speed.soaked_runs:,}",
        f"{max(0.0, speed.ready):.2f} s",
        f"{speed.functional:.2f} s",
    ]


def slope(speeds: Sequence[Speed]) -> float:
    """How timing grows with instructions: the exponent of a power law, 1 where it is linear."""
    counts = np.log([speed.instructions for speed in speeds])
    seconds = np.log([speed.timed for speed in speeds])
    return float(np.polyfit(counts, seconds, 1)[0])


def page(speeds: Sequence[Speed]) -> str:
    """docs/device_speed.md."""
    return "\n".join(
        [
            "# What the simulated device costs",
            "",
            "Made by `make bench`; figures of one machine, never asserted in a test. "
            f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}.",
            "",
            "CPU seconds of one process on one thread. Models are the zoo's, in float16. Timing a",
            "plan once prices every instruction and runs the clock; it is what the compiler's",
            "estimate costs, too. 1,000 jittered runs and an hour's soak include what weather and",
            "heat cost. Judging holds the plan against every rule, which each load does first.",
            "",
            *table(_HEAD, [row(speed) for speed in speeds]),
            "",
            *_growth(speeds),
        ]
    )


def _growth(speeds: Sequence[Speed]) -> Iterator[str]:
    """A line for each device that had several models."""
    yield "Timing grows with the number of instructions to the power of"
    yield ""
    for hardware in dict.fromkeys(speed.hardware for speed in speeds):
        mine = [speed for speed in speeds if speed.hardware == hardware]
        if len({speed.instructions for speed in mine}) > 1:
            low, high = (pick(item.instructions for item in mine) for pick in (min, max))
            yield f"- {slope(mine):.2f} on {hardware}, from {low:,} to {high:,} instructions"
    yield ""


def main() -> None:
    """Measures and writes docs/device_speed.md."""
    chosen = bench_parser("device_speed", __doc__, MODELS, HARDWARE).parse_args()
    project = find_project()
    target = project.root / "docs" / "device_speed.md"
    speeds: list[Speed] = []
    for spec in load_specs(chosen.hardware, project):
        for model in chosen.models:
            speeds.append(measure(model, spec))
            print(table_row(row(speeds[-1])), flush=True)
            write_beside(target, page(speeds).encode())  # the large ones take minutes to compile
    print(f"written to {target}")


if __name__ == "__main__":
    main()
