"""Stage 2, compile: a normalised model and a hardware spec become a recipe package."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from stages.collector import collector_paused
from stages.compiler.checkpoint import (
    is_past,
    resumed,
    rewritten,
    run_to,
    stopped,
    undecided,
)
from stages.compiler.draft import Pass
from stages.compiler.interleaving import Interleaving
from stages.compiler.lora import Lora
from stages.compiler.pipeline import begin, decide_all, decisions, rewrites
from stages.compiler.progress import Progress
from stages.compiler.reuse import facts_of, reused, to_store
from stages.errors import InputError
from stages.hardware.load import load_spec
from stages.hardware.spec import HardwareSpec
from stages.normalizer.quantization_copy import QUANTIZATION_FILE
from stages.normalizer.sample_files import load_samples
from stages.package import (
    CompileEnvironment,
    Contents,
    FileFacts,
    Manifest,
    Stopwatch,
    StoredDecisions,
    code_digest,
    file_facts,
    find_stored,
    keep_stored,
    mapped,
    observe_environment,
    plan_files,
    read_code,
    read_stopped,
    read_stored,
    write_contents,
    write_stopped,
)
from stages.plan.packing import pack
from stages.quantizer import Decided, Subject, decide, load_settings
from stages.recipe.graph import Graph
from stages.recipe.onnx_import import import_model, parse_model
from stages.tensors import Array
from stages.version import COMPILER_VERSION

MODEL_FILE = "model.onnx"
SAMPLES_FILE = "samples.npz"
_MODEL, _QUANTIZATION = "model", "quantisation file"  # among digests

__all__ = ["CompileReport", "Reuse", "compile_model", "compile_until"]


@dataclass(frozen=True, slots=True)
class Reuse:
    """Where decisions for the same structure may be found: an old `package`, then the folder
    `store`, which is also where new ones are kept. None: nowhere."""

    package: Path | None = None
    store: Path | None = None


@dataclass(frozen=True, slots=True)
class CompileReport:
    """What was made: `groups` of which `fallbacks` run on the host, `instructions` of the plan,
    its jitter-free `cycles`, and the hash of the package. `reused` says where the decisions come
    from where they weren't made, or why they couldn't be used or kept; `notes` are the recipe's;
    `environment` is the machine while it worked."""

    groups: int
    fallbacks: int
    instructions: int
    cycles: int
    package_sha256: str
    reused: str
    notes: tuple[str, ...]
    environment: CompileEnvironment


_NO_REUSE = Reuse()


@collector_paused()
def compile_model(
    normalized_dir: Path,
    hardware: Path,
    package_dir: Path,
    *,
    quantization: Path | None,
    reuse: Reuse = _NO_REUSE,
    start_from: Path | None = None,
    interleaving: Interleaving = Interleaving.CASCADES,
    lora: Lora = Lora.KEEP,
) -> CompileReport:
    """Compile the model of a normalised folder, and write its package, whole or not at all.

    The quantisation file is `quantization`, or else the one in the folder, where there is one. The
    package is the same whether or not decisions were found to use again. `interleaving`: what may
    run across layers, cascades for one; `lora`: whether low-rank branches become part of weights.

    Raises:
        InputError: the folder holds no normalised model, the quantisation file or the inputs that
            it names are wrong or for another model, what to start from is wrong, or the package
            can't be written.
        HardwareSpecError: the spec is wrong.
        CompileError: no recipe for this device exists, or none within the accuracy limit.
        PackageError: the package to use again is none.
    """
    watch = Stopwatch.start()
    inputs = _read(normalized_dir, hardware, quantization, start_from, interleaving, lora)
    contents, how = _contents(inputs, reuse)
    environment = observe_environment(watch, code_digest())
    written = write_contents(package_dir, contents, _manifest(inputs), environment)
    return CompileReport(
        groups=len(contents.recipe.groups),
        fallbacks=len(contents.recipe.fallbacks),
        instructions=contents.decided.instructions,
        cycles=contents.decided.cycles,
        package_sha256=written.package_sha256,
        reused=how,
        notes=contents.recipe.notes,
        environment=environment,
    )


def compile_until(
    normalized_dir: Path,
    hardware: Path,
    out_dir: Path,
    *,
    quantization: Path | None,
    stop_after: str,
    start_from: Path | None = None,
    interleaving: Interleaving = Interleaving.CASCADES,
    lora: Lora = Lora.KEEP,
) -> None:
    """Compile as far as a pass, and write the recipe as text, with what going on from it needs.

    Raises:
        InputError: as `compile_model`; there is no such pass; the folder can't be written.
        HardwareSpecError: the spec is wrong.
        CompileError: no recipe for this device exists, or none within the accuracy limit.
    """
    inputs = _read(normalized_dir, hardware, quantization, start_from, interleaving, lora)
    then = decisions()
    progress = run_to(inputs.progress, inputs.first, then, inputs.spec, stop_after)
    write_stopped(out_dir, stopped(progress, then, inputs.digests))


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What was read, with the digests that the manifest names; `progress` is where the compile
    begins."""

    spec: HardwareSpec
    digests: Mapping[str, str]
    quantization_data_sha256: Mapping[str, str]
    progress: Progress
    first: tuple[Pass, ...]


def _read(
    normalized_dir: Path,
    hardware: Path,
    quantization: Path | None,
    start_from: Path | None,
    interleaving: Interleaving,
    lora: Lora,
) -> _Inputs:
    spec = load_spec(hardware)
    model_path = normalized_dir / MODEL_FILE
    graph, constants, facts = _read_model(model_path)
    samples_path = normalized_dir / SAMPLES_FILE
    samples = load_samples(samples_path)
    sample = samples[0] if samples else None
    quantization = quantization or _own_quantization(normalized_dir)
    decided, digests = Decided(), {_MODEL: facts.sha256, "hardware spec": spec.digest}
    if quantization is not None:
        subject = Subject(model_path, graph, constants, spec, samples_path, sample)
        decided = decide(load_settings(quantization, graph), subject)
        digests[_QUANTIZATION] = file_facts(quantization).sha256
        digests |= {f"inputs for {key}": value for key, value in decided.data_sha256.items()}
    first = rewrites(decided.quantization, sample, lora)
    if start_from is None:
        progress = begin(graph, constants, spec, interleaving)
    else:
        found = read_stopped(start_from)
        progress = resumed(found, digests, first, decisions(), spec, interleaving)
    return _Inputs(spec, digests, decided.data_sha256, progress, first)


def _contents(inputs: _Inputs, reuse: Reuse) -> tuple[Contents, str]:
    """What goes into the package, from old decisions where there are any; and a word on them."""
    spec = inputs.spec
    begun = is_past(inputs.progress, inputs.first)
    progress = rewritten(inputs.progress, inputs.first, spec)
    found, said = _find(reuse, "" if begun else progress.structure_sha256)
    if found is not None:
        draft = reused(progress, found)
        facts, plan = found.facts, found.plan
    else:
        decided = decide_all(progress, undecided(progress, decisions()), spec)
        draft = decided.progress.whole
        facts, plan = facts_of(decided), plan_files(decided.plan)
        if reuse.store is not None and facts.structure_sha256:
            said.append(keep_stored(reuse.store, to_store(decided, facts, plan)))
    weights = pack(facts.packings, draft.constants, draft.recipe.layout)
    contents = Contents(draft.recipe, plan, weights, draft.constants, draft.weighed, facts)
    return contents, "; ".join(filter(None, said))


def _find(reuse: Reuse, structure_sha256: str) -> tuple[StoredDecisions | None, list[str]]:
    """Old decisions for a structure (empty: some are made already), and where they were found or
    why they weren't."""
    said = list[str]()
    if reuse.package is not None:
        found = read_stored(reuse.package)
        obstacle = _obstacle(found, read_code(reuse.package), structure_sha256)
        if not obstacle:
            return found, [f"decisions of {reuse.package} used again"]
        said.append(f"nothing of {reuse.package} can be used again: {obstacle}")
    if reuse.store is not None and structure_sha256:
        kept = find_stored(reuse.store, structure_sha256)
        if kept is not None:
            return kept, [*said, "decisions for the same structure used again"]
    return None, said


def _obstacle(found: StoredDecisions, code_sha256: str, structure_sha256: str) -> str:
    """Why a package's decisions can't be used again; empty where they can."""
    if not structure_sha256:
        return "some decisions are made already"
    if found.facts.structure_sha256 != structure_sha256:
        return "its structure is another (graph, hardware spec, quantisation, options or compiler)"
    if code_sha256 and code_sha256 != code_digest():
        return "another compiler made it"
    return ""


def _manifest(inputs: _Inputs) -> Manifest:
    spec = inputs.spec
    return Manifest(
        model=inputs.progress.draft.graph.name,
        model_sha256=inputs.digests[_MODEL],
        hardware=spec.name,
        hardware_version=spec.version,
        hardware_sha256=spec.digest,
        compiler_version=COMPILER_VERSION,
        quantization_sha256=inputs.digests.get(_QUANTIZATION),
        quantization_data_sha256=inputs.quantization_data_sha256,
        cascades=inputs.progress.interleaving.value,
    )


def _own_quantization(normalized_dir: Path) -> Path | None:
    path = normalized_dir / QUANTIZATION_FILE
    return path if path.is_file() else None


def _read_model(path: Path) -> tuple[Graph, Mapping[str, Array], FileFacts]:
    """What the model means, and its digest, from one reading."""
    hint = "run `recipe normalize MODEL --out DIR` first"
    if not path.is_file():
        problem = f"no normalised model {path.name!r} in {path.parent.name!r}"
        raise InputError(problem, where=str(path.parent), hint=hint)
    try:
        with mapped(path) as data:
            facts = FileFacts(len(data), hashlib.sha256(data).hexdigest())
            model, elements = parse_model(data)
        onnx.load_external_data_for_model(model, str(path.parent))
    except (DecodeError, onnx.checker.ValidationError, OSError, ValueError) as error:
        problem = f"the normalised model can't be read: {error}"
        raise InputError(problem, where=str(path), hint=hint) from error
    if not model.HasField("graph"):
        raise InputError("the normalised model holds no graph", where=str(path), hint=hint)
    return *import_model(model, elements), facts
