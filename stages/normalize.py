"""The normalize stage: a model from anywhere -> model.onnx, samples.npz, normalize.json.

model.onnx         static shapes, operator set 17, no initialiser as an input; weights over 2 GB
                   in model.onnx.data
samples.npz        sample inputs, see `stages.normalizer.sample_files`
quantization.yaml  the model's own quantisation file, byte for byte, where it has one; beside it the
                    .npz files of inputs that it names
normalize.json     what was changed, and how far the result lies from the original
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stages.normalizer.folders import new_folder
from stages.normalizer.normalize import Normalized, normalize_model, save_model
from stages.normalizer.proof import Proof, prove_equal
from stages.normalizer.quantization_copy import copy_quantization, read_quantization
from stages.normalizer.raising import RECIPE_OPSET
from stages.normalizer.sample_files import load_samples, save_samples
from stages.normalizer.samples import input_types, output_types
from stages.normalizer.sampling import choose_samples
from stages.normalizer.source import NO_BINDINGS, ModelSource

MODEL_FILE = "model.onnx"
SAMPLES_FILE = "samples.npz"
REPORT_FILE = "normalize.json"

__all__ = ["MODEL_FILE", "REPORT_FILE", "SAMPLES_FILE", "NormalizeReport", "load_samples",
           "normalize"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class NormalizeReport:
    """What the stage found and did; `as_json` is the content of normalize.json."""

    name: str
    origin: str
    licence: str
    original_sha256: str
    opset_from: int
    opset_to: int
    bindings: Mapping[str, int]
    steps: tuple[Mapping[str, str], ...]
    operators_before: Mapping[str, int]
    operators_after: Mapping[str, int]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    renamed_outputs: Mapping[str, str]
    samples_from: str
    sample_count: int
    seed: int
    proof: Proof

    @property
    def nodes_before(self) -> int:
        """Nodes of the original's main graph."""
        return sum(self.operators_before.values())

    @property
    def nodes_after(self) -> int:
        """Nodes of the normalised graph."""
        return sum(self.operators_after.values())

    def as_json(self) -> dict[str, Any]:
        """Plain data, no path, no clock, no machine."""
        return {**asdict(self), "nodes_before": self.nodes_before, "nodes_after": self.nodes_after}


def normalize(
    source: ModelSource,
    out_dir: Path,
    *,
    bindings: Mapping[str, int] = NO_BINDINGS,
    seed: int,
    sample_count: int,
) -> NormalizeReport:
    """Normalises a model and writes `out_dir`, whole or not at all.

    `bindings` override the source's own. Raises `InputError` for whatever is wrong with the model,
    the bindings, the samples, the quantisation file or the folder.
    """
    taken = (MODEL_FILE, f"{MODEL_FILE}.data", SAMPLES_FILE, REPORT_FILE)
    brought = read_quantization(source.quantization, taken) if source.quantization else {}
    normalized = normalize_model(source, bindings)
    samples, samples_from = choose_samples(source, normalized.graph, seed, sample_count)
    with new_folder(out_dir) as folder:
        save_model(normalized.graph, folder / MODEL_FILE)
        save_samples(folder / SAMPLES_FILE, samples)
        copy_quantization(brought, folder)
        proof = prove_equal(source.path, normalized, folder / MODEL_FILE, samples)
        report = _report(source, normalized, proof, samples_from, len(samples), seed)
        text = json.dumps(report.as_json(), indent=2, sort_keys=True, ensure_ascii=False)
        (folder / REPORT_FILE).write_text(text + "\n", encoding="utf-8")
    return report


def _report(
    source: ModelSource, normalized: Normalized, proof: Proof, samples_from: str, count: int,
    seed: int,
) -> NormalizeReport:  # fmt: skip
    graph = normalized.graph
    return NormalizeReport(
        name=source.name,
        origin=source.origin,
        licence=source.licence,
        original_sha256=normalized.original_sha256,
        opset_from=normalized.opset_from,
        opset_to=RECIPE_OPSET,
        bindings=dict(normalized.bindings),
        steps=tuple(asdict(step) for step in normalized.steps),
        operators_before=dict(normalized.operators_before),
        operators_after=dict(normalized.operators_after),
        inputs={name: str(kind) for name, kind in input_types(graph).items()},
        outputs={name: str(kind) for name, kind in output_types(graph).items()},
        renamed_outputs=dict(normalized.renamed_outputs),
        samples_from=samples_from,
        sample_count=count,
        seed=seed,
        proof=proof,
    )
