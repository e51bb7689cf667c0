"""Stage 2, compile: a normalised model and a hardware spec become a recipe package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx

from stages.compiler.cascading import Cascading
from stages.compiler.pipeline import compile_graph
from stages.compiler.quantization import load_quantization
from stages.errors import InputError
from stages.hardware.load import load_spec
from stages.normalizer.quantization_copy import QUANTIZATION_FILE
from stages.normalizer.samples import load_samples
from stages.package import Manifest, Package, file_facts, write_package
from stages.plan.timing import plan_cycles
from stages.recipe.onnx_import import import_model
from stages.version import COMPILER_VERSION

MODEL_FILE = "model.onnx"
SAMPLES_FILE = "samples.npz"

__all__ = ["CompileReport", "compile_model"]


@dataclass(frozen=True, slots=True)
class CompileReport:
    """What was made: `groups` of which `fallbacks` run on the host, `instructions` of the plan,
    its jitter-free `cycles`, and the hash of the package."""

    groups: int
    fallbacks: int
    instructions: int
    cycles: int
    package_sha256: str


def compile_model(
    normalized_dir: Path,
    hardware: Path,
    package_dir: Path,
    *,
    quantization: Path | None,
    cascading: Cascading = Cascading.ON,
) -> CompileReport:
    """Compile the model of a normalised folder, and write its package, whole or not at all.

    The quantisation file is `quantization`, or else the one in the folder, where there is one.
    `cascading`: whether groups may run in cascades.

    Raises:
        InputError: the folder holds no normalised model, the quantisation file is for another
            model, or the package can't be written.
        HardwareSpecError: the spec is wrong.
        CompileError: no recipe for this device exists.
    """
    spec = load_spec(hardware)
    model_path = normalized_dir / MODEL_FILE
    model = _read_model(model_path)
    graph, constants = import_model(model)
    quantization = quantization or _own_quantization(normalized_dir)
    ranges = load_quantization(quantization, graph) if quantization is not None else None
    samples = load_samples(normalized_dir / SAMPLES_FILE)
    sample = samples[0] if samples else None
    compiled = compile_graph(graph, constants, spec, ranges, sample, cascading)
    manifest = Manifest(
        model=graph.name,
        model_sha256=file_facts(model_path).sha256,
        hardware=spec.name,
        hardware_version=spec.version,
        hardware_sha256=spec.digest,
        compiler_version=COMPILER_VERSION,
        quantization_sha256=file_facts(quantization).sha256 if quantization else None,
        cascades=cascading.value,
    )
    package = Package(
        compiled.recipe,
        compiled.plan,
        compiled.weights,
        manifest,
        compiled.constants,
        compiled.weighed,
    )
    written = write_package(package_dir, package)
    return CompileReport(
        groups=len(compiled.recipe.groups),
        fallbacks=len(compiled.recipe.fallbacks),
        instructions=len(compiled.plan.instructions),
        cycles=plan_cycles(compiled.plan, spec),
        package_sha256=written.package_sha256,
    )


def _own_quantization(normalized_dir: Path) -> Path | None:
    path = normalized_dir / QUANTIZATION_FILE
    return path if path.is_file() else None


def _read_model(path: Path) -> onnx.ModelProto:
    if not path.is_file():
        raise InputError(
            f"no normalised model {path.name!r} in {path.parent.name!r}",
            where=str(path.parent),
            hint="run `recipe normalize MODEL --out DIR` first",
        )
    return onnx.load(path)
