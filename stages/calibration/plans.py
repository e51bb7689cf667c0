"""Plans of the models that were measured, compiled once and kept in a cache.

A cached plan is found by what it was made from: the model, the device, the precision, and the code
of the compiler. Nothing but time depends on the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

import onnx

from stages.calibration.measurements import Precision
from stages.calibration.work import Work, work_of
from stages.compiler.pipeline import Compiled as CompiledGraph
from stages.compiler.pipeline import compile_graph
from stages.compiler.quantization import Quantization
from stages.compiler.vendor_way import as_vendors_fuse, compile_as_vendors_do
from stages.errors import CompileError, PackageError
from stages.hardware.spec import HardwareSpec
from stages.plan.binary import decode_plan, encode_plan
from stages.plan.instructions import Plan
from stages.recipe.graph import Graph
from stages.recipe.onnx_import import import_model
from stages.tensors import Array

_CODE = ("compiler", "recipe", "hardware", "plan")
_FILES = ("tensors.py", "units.py", "calibration/plans.py", "calibration/work.py")


class Way(StrEnum):
    """How a network is compiled: as vendors' compilers do it, which is what was measured, or as
    this one does where nothing is asked of it, cascades and all."""

    VENDORS = "vendors"
    OWN = "own"


_COMPILERS: Mapping[Way, Callable[..., CompiledGraph]] = {
    Way.VENDORS: compile_as_vendors_do,
    Way.OWN: compile_graph,
}


@dataclass(frozen=True, slots=True)
class Subject:
    """A model that can be compiled: its name, a digest of all that makes it, how to make it for a
    precision (opset 17, static shapes), and the ranges that make it int8."""

    name: str
    digest: str
    load: Callable[[Precision], onnx.ModelProto]
    quantization: Callable[[Graph, Mapping[str, Array], HardwareSpec], Quantization]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A plan, the size of the network that it runs, and how many operators are the host's."""

    plan: Plan
    work: Work
    fallbacks: int


def compiled_plan(
    subject: Subject,
    precision: Precision,
    spec: HardwareSpec,
    cache_dir: Path,
    way: Way = Way.VENDORS,
) -> Compiled:
    """The plan of a model on a device in a precision, from the cache where it is there.

    Raises:
        InputError: the model or its quantisation file is wrong.
        CompileError: no plan exists, or the compiler has no recipes of this precision.
    """
    if precision is Precision.W8A16:
        raise CompileError(
            f"no recipe of {subject.name} in {precision}: 16-bit activations with 8-bit weights "
            "aren't compiled yet",
            hint="leave the row out, or measure int8 or fp16",
        )
    stem = cache_dir / _key(subject, precision, spec, way)
    found = _read_cached(stem)
    if found is not None:
        return found
    graph, constants = import_model(subject.load(precision))
    is_int8 = precision is Precision.INT8
    fused = as_vendors_fuse(spec) if way is Way.VENDORS else spec
    ranges = subject.quantization(graph, constants, fused) if is_int8 else None
    made = _COMPILERS[way](graph, constants, spec, ranges)
    compiled = Compiled(made.plan, work_of(graph, constants), len(made.recipe.fallbacks))
    _write_cached(stem, compiled)
    return compiled


def _key(subject: Subject, precision: Precision, spec: HardwareSpec, way: Way) -> str:
    parts = [subject.digest, precision.value, spec.digest, way.value, code_digest()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:40]


@cache
def code_digest() -> str:
    """A digest of the code that plans come from."""
    stages = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    files = [path for room in _CODE for path in sorted((stages / room).rglob("*.py"))]
    for path in [*files, *(stages / name for name in _FILES)]:
        digest.update(path.relative_to(stages).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def _read_cached(stem: Path) -> Compiled | None:
    try:
        data = stem.with_suffix(".plan").read_bytes()
        facts = json.loads(stem.with_suffix(".json").read_bytes())
        plan = decode_plan(data, str(stem))
        return Compiled(plan, Work(**facts["work"]), int(facts["fallbacks"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, PackageError):
        return None  # half-written or of another time: compiled again


def _write_cached(stem: Path, compiled: Compiled) -> None:
    stem.parent.mkdir(parents=True, exist_ok=True)
    facts = {"work": asdict(compiled.work), "fallbacks": compiled.fallbacks}
    _write(stem.with_suffix(".plan"), encode_plan(compiled.plan))
    _write(stem.with_suffix(".json"), json.dumps(facts, sort_keys=True).encode())


def _write(path: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=".partial-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
