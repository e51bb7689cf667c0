"""What runs on the host of which device: models of the registry, compiled whole for every device.

`python -m flows.benchmarks.on_the_host` writes its section of docs/fallbacks.md; `make bench` does.
The models are those that need no torch. The figures are the same on every machine.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx

from flows.benchmarks.compile_time import recipe
from flows.benchmarks.sections import replace_section, table
from flows.benchmarks.whole_compiles import Row, compiled_row
from flows.project.places import find_project
from stages.errors import CompileError
from stages.hardware.load import load_spec, spec_names
from stages.hardware.spec import HardwareSpec
from stages.recipe.kinds import Kind
from stages.recipe.onnx_import import import_model

MODELS = (
    "ppocr_cls",
    "ppocr_det",
    "ppocr_rec",
    "silero_vad",
    "magika",
    "quantized_cnn",
    "transformer_block",
)
TITLE = "Models of the registry"
_RULED = 40_000
_FORMATS = (Kind.QUANTIZE, Kind.DEQUANTIZE)


def rows_of(name: str, normalized: Path, specs: Sequence[HardwareSpec]) -> Iterator[Row | None]:
    """What became of a normalised model on each device; None where the compiler refuses it."""
    graph, constants = import_model(onnx.load(normalized / "model.onnx"))
    for spec in specs:
        try:
            yield compiled_row(name, graph, constants, spec, _RULED)
        except CompileError:
            yield None


def cell(row: Row | None) -> str:
    """Operators on the host: those of kinds that the list has, those of other kinds, and changes
    of number format; 0 where there are none."""
    if row is None:
        return "refused"
    listed, lacking = _kinds(row["claimed"]), _kinds(row["unlisted"])
    formats = sum(found.pop(str(kind), 0) for found in (listed, lacking) for kind in _FORMATS)
    counts = (listed.total(), lacking.total(), formats)
    told = " / ".join(map(str, counts)) if any(counts) else "0"
    if row["rules"]:
        return f"{told}, rules: {row['rules']}"
    if row["device_ns"] != row["estimate_ns"]:
        return f"{told}, {row['device_ns']} ns instead of {row['estimate_ns']}"
    return told


def _kinds(told: object) -> Counter[str]:
    """Operators of each kind in a row's `count kind: reason`."""
    assert isinstance(told, list)
    found: Counter[str] = Counter()
    for line in told:
        count, _, kind = line.partition(":")[0].partition(" ")
        found[kind] += int(count)
    return found


def lines(devices: Sequence[str], found: Sequence[tuple[str, Sequence[Row | None]]]) -> list[str]:
    """The section."""
    return [
        "Made by `make bench` (`python -m flows.benchmarks.on_the_host`), the same on every",
        "machine. Where the cell says nothing of rules or time, the device loaded the plan, which",
        "breaks no rule, and without jitter took to the nanosecond what the compiler estimates",
        f"(plans over {_RULED:,} instructions aren't loaded).",
        "",
        *table(("model", *devices), [(f"`{name}`", *map(cell, rows)) for name, rows in found]),
    ]


def main() -> None:
    """Compiles everything and writes the section."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.benchmarks.on_the_host", description=__doc__
    )
    parser.add_argument("--models", nargs="+", default=MODELS)
    chosen = parser.parse_args()
    project = find_project()
    devices = spec_names(project.hardware_specs)
    specs = [load_spec(project.hardware_specs / f"{device}.yaml") for device in devices]
    found: list[tuple[str, list[Row | None]]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen.models:
            recipe("normalize", name, "--out", Path(folder) / name)
            found.append((name, list(rows_of(name, Path(folder) / name, specs))))
            print(name, *map(cell, found[-1][1]), sep="  ", flush=True)
    replace_section(project.root / "docs" / "fallbacks.md", TITLE, lines(devices, found))


if __name__ == "__main__":
    main()
