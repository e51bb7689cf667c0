"""One normalised model, compiled whole for devices: its recipes, its fallbacks, its broken rules,
and whether the device takes the time that the compiler estimates.

    python -m flows.benchmarks.whole_compiles FOLDER_OF_A_NORMALISED_MODEL [--hardware NAMES]

Prints a line of JSON for each device. Float where the device has a unit for products of floats;
else int8 with nominal ranges, as for timing. A crash is a row too, not the end of the run.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnx

from flows.benchmarks.choice import load_specs
from flows.benchmarks.fallbacks import Fallback, fallbacks, placed
from flows.project.places import find_project
from models.zoo.ranges import fused_quantization
from stages.compiler.pipeline import Compiled, completed, decide_all, decisions
from stages.compiler.progress import begin_decisions
from stages.device.admission import RefusedPlanError
from stages.device.simulated import SimulatedDevice
from stages.errors import RecipeError
from stages.hardware.cost import cycles_to_nanoseconds
from stages.hardware.spec import HardwareSpec
from stages.package import DecidedFacts, Manifest, Package
from stages.plan.timing import plan_cycles
from stages.recipe.graph import Graph
from stages.recipe.kinds import Kind
from stages.recipe.onnx_import import import_model
from stages.tensors import Array, DType

Row = dict[str, str | int | float | list[str]]


def has_floats(spec: HardwareSpec) -> bool:
    """Whether the device multiplies matrices or convolves in floats."""
    products = [spec.operators[kind] for kind in (Kind.MATMUL, Kind.CONV) if kind in spec.operators]
    return any({DType.F16, DType.F32} & set(claim.dtypes) for claim in products)


def compiled_row(
    name: str, graph: Graph, constants: Mapping[str, Array], spec: HardwareSpec, ruled: int
) -> Row:
    """What became of one model on one device. Plans up to `ruled` instructions are loaded on the
    device, which holds them against the rules and runs them without jitter.

    Raises:
        RecipeError: the compiler refuses the model.
    """
    started = time.process_time()
    ranges = None if has_floats(spec) else fused_quantization(graph, constants, spec)
    progress = placed(graph, constants, spec, ranges)
    rows = fallbacks(name, progress.draft, spec)
    decided = decide_all(begin_decisions(progress, spec), decisions(), spec)
    compiled = completed(decided)
    cpu_s = time.process_time() - started
    length = len(compiled.plan.instructions)
    return {
        "precision": "float" if ranges is None else "int8",
        "cpu_s": round(cpu_s, 1),
        "groups": len(decided.progress.draft.recipe.groups),
        "instructions": length,
        "host": sum(row.count for row in rows),
        "claimed": [_told(row) for row in rows if row.claimed],
        "unlisted": [_told(row) for row in rows if not row.claimed],
    } | (device_row(name, compiled, spec) if length <= ruled else {"rules": "not checked"})


def device_row(name: str, compiled: Compiled, spec: HardwareSpec) -> Row:
    """The rules that the plan breaks, the compiler's estimate and, of a plan that breaks none, the
    jitter-free device's time."""
    estimate_ns = cycles_to_nanoseconds(spec, plan_cycles(compiled.plan, spec))
    manifest = Manifest(name, "0" * 64, spec.name, spec.version, spec.digest, "0")
    package = Package(
        compiled.recipe,
        compiled.plan,
        compiled.weights,
        manifest,
        compiled.constants,
        decided=DecidedFacts(packings=compiled.packings),
    )
    device = SimulatedDevice(replace(spec, jitter=()))
    try:
        device.load(package, Path())
    except RefusedPlanError as refused:
        told = [f"{item.rule}: {item.message}" for item in refused.violations[:5]]
        return {"rules": len(refused.violations), "violations": told, "estimate_ns": estimate_ns}
    (taken_ns,) = device.measure(1, 0, 0).latencies_ns.tolist()
    return {"rules": 0, "violations": [], "estimate_ns": estimate_ns, "device_ns": taken_ns}


def _told(row: Fallback) -> str:
    return f"{row.count} {row.kind}: {row.reason}"


def main() -> None:
    """Prints a row for each device, in the order of their names."""
    parser = argparse.ArgumentParser(prog="python -m flows.benchmarks.whole_compiles")
    parser.add_argument("model", type=Path, help="a folder that normalize wrote")
    parser.add_argument("--hardware", nargs="+", help="specs; else all")
    parser.add_argument(
        "--ruled",
        type=int,
        default=40_000,
        metavar="N",
        help="hold plans up to N instructions against the rules; a long one takes minutes",
    )
    chosen = parser.parse_args()
    specs = load_specs(chosen.hardware, find_project())
    graph, constants = import_model(onnx.load(chosen.model / "model.onnx"))
    for spec in specs:
        row: Row = {"model": chosen.model.name, "hardware": spec.name}
        try:
            row |= compiled_row(chosen.model.name, graph, constants, spec, chosen.ruled)
        except RecipeError as error:
            row["refused"] = str(error)
        except Exception:  # a survey of crashes goes on behind one
            row["crashed"] = traceback.format_exc(limit=-6)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
