"""What `recipe compile` costs: CPU seconds of its whole process, the median of several.

`python -m flows.benchmarks.compile_time` measures, and writes its section of docs/benchmarks.md.
Python's start and all imports are included, since a peer's command line pays for its own, too.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np
import onnx
import yaml
from onnx import numpy_helper

from flows.benchmarks.choice import bench_parser
from flows.benchmarks.command_cost import run_recipe
from flows.benchmarks.sections import replace_section, table
from flows.project.places import find_project, hardware_path
from models.zoo import build
from models.zoo.ranges import fused_quantization
from stages.hardware.load import load_spec
from stages.package import read_package
from stages.recipe.onnx_import import import_model

MODELS = ("mobilenet_v2", "resnet50", "bert_base_seq128", "vit_base", "vit_large")
HARDWARE = ("rk3588_npu", "ethos_u65_512")
REPEATS = 5
TITLE = "Compile time"
PEERS: Mapping[str, str] = {"mobilenet_v2": "Vela 1.24", "resnet50": "Vela 5.65"}


@dataclass(frozen=True, slots=True)
class CompileTime:
    """CPU seconds of one model on one device: from nothing, and where only weights changed.
    `instructions` are those of the plan."""

    model: str
    hardware: str
    operators: int
    instructions: int
    cold: float
    reused: float


def measure(model: str, hardware: Path, folder: Path, repeats: int) -> CompileTime:
    """Compile a network of the zoo in int8, and once more with other weights."""
    normalized, other = folder / "normalized", folder / "other"
    source = folder / f"{model}.onnx"
    _save(build(model), source)
    recipe("normalize", source, "--out", normalized)
    operators = write_ranges(normalized / "model.onnx", hardware, folder / "ranges.yaml")
    recipe("normalize", _with_other_weights(source), "--out", other)
    given: list[str | Path] = ["--hardware", hardware, "--quantization", folder / "ranges.yaml"]
    first, second = folder / "first", folder / "second"
    cold = [
        recipe("compile", normalized, *given, "--fresh", "--out", first) for _ in range(repeats)
    ]
    reused = [
        recipe("compile", other, *given, "--reuse", first, "--out", second) for _ in range(repeats)
    ]
    instructions = read_package(first).decided.instructions
    costs = statistics.median(cold), statistics.median(reused)
    return CompileTime(model, hardware.stem, operators, instructions, *costs)


def recipe(*arguments: str | Path) -> float:
    """CPU seconds of one command.

    Raises:
        CalledProcessError: it ended with another code than 0.
    """
    cost = run_recipe(*arguments)
    if cost.exit_code:
        raise subprocess.CalledProcessError(cost.exit_code, ["recipe", *map(str, arguments)])
    return cost.cpu_seconds


def write_ranges(model: Path, hardware: Path, target: Path) -> int:
    """Writes nominal ranges as a quantisation file; returns the number of operators."""
    graph, constants = import_model(onnx.load(model))
    ranges = fused_quantization(graph, constants, load_spec(hardware)).ranges
    document = {
        "version": 1,
        "model": graph.name,
        "activations": {name: {"min": r.low, "max": r.high} for name, r in ranges.items()},
    }
    target.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return len(graph.operators)


def _with_other_weights(source: Path) -> Path:
    """The same network with each weight of more than one element a little larger."""
    model = onnx.load(source)
    for tensor in model.graph.initializer:
        data = numpy_helper.to_array(tensor)
        if data.size > 1 and np.issubdtype(data.dtype, np.floating):
            changed = (data * np.float32(1.25)).astype(data.dtype)
            tensor.CopyFrom(numpy_helper.from_array(changed, tensor.name))
    target = source.with_name(f"other_{source.name}")
    _save(model, target)
    return target


def _save(model: onnx.ModelProto, target: Path) -> None:
    """Weights beside the model: ViT-Large is near the 2 GB that one message may have."""
    onnx.save(model, target, save_as_external_data=True, location=f"{target.stem}.data")


def lines(times: Sequence[CompileTime]) -> list[str]:
    """The section."""
    head = (
        *("model", "hardware", "operators", "instructions"),
        *("cold", "weights only", "share", "peers"),
    )
    rows = [
        (
            time.model,
            time.hardware,
            f"{time.operators:,}",
            f"{time.instructions:,}",
            f"{time.cold:.2f} s",
            f"{time.reused:.2f} s",
            f"{time.reused / time.cold:.0%}",
            PEERS.get(time.model, ""),
        )
        for time in times
    ]
    return [
        "CPU seconds of `recipe compile` in int8, all of its process, medians of several runs:",
        "from nothing, and with `--reuse` where only weights changed. Python's start and imports",
        "are in it, with bytecode cached, as an installed program has it. Peers: the vendor's",
        "compiler and its CPU seconds, measured once, by hand, on a machine of this kind.",
        "",
        *table(head, rows),
        "",
        *_growth(times),
    ]


def _growth(times: Sequence[CompileTime]) -> list[str]:
    """How the time grows from ViT-Base to ViT-Large, with operators and with instructions: the
    exponents of powers."""
    found = []
    for hardware in dict.fromkeys(time.hardware for time in times):
        vits = [time for time in times if time.hardware == hardware and "vit" in time.model]
        if len(vits) == 2:
            small, large = vits
            grown = log(large.cold / small.cold)
            by_operators = grown / log(large.operators / small.operators)
            by_instructions = grown / log(large.instructions / small.instructions)
            found += [
                f"From ViT-Base to ViT-Large on {hardware}: operators to the power of "
                f"{by_operators:.2f},",
                f"instructions to the power of {by_instructions:.2f}.",
            ]
    return found


def main() -> None:
    """Measures and writes the section."""
    parser = bench_parser("compile_time", __doc__, MODELS, HARDWARE)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    chosen = parser.parse_args()
    project = find_project()
    page = project.root / "docs" / "benchmarks.md"
    times: list[CompileTime] = []
    for hardware in chosen.hardware:
        spec = hardware_path(hardware, project)
        for model in chosen.models:
            with tempfile.TemporaryDirectory() as folder:
                times.append(measure(model, spec, Path(folder), chosen.repeats))
            print(times[-1], flush=True)
            replace_section(page, TITLE, lines(times))


if __name__ == "__main__":
    main()
