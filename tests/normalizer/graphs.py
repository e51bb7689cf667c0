"""Small models for the tests of this room, and the shortest way through the stage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

from stages.normalize import NormalizeReport, normalize
from stages.normalizer.normalize import Normalized, normalize_model
from stages.normalizer.source import ModelSource
from stages.tensors import Array

Weights = Mapping[str, Array]


def from_text(
    graph: str, weights: Weights | None = None, opset: int = 17, ir_version: int = 8,
    domains: Mapping[str, int] | None = None,
) -> onnx.ModelProto:  # fmt: skip
    """A model whose graph is written in ONNX's textual syntax; not checked."""
    parsed = parser.parse_graph(graph)
    parsed.initializer.extend(
        numpy_helper.from_array(np.asarray(value), name) for name, value in (weights or {}).items()
    )
    imports = [onnx.helper.make_opsetid("", opset)]
    imports += [onnx.helper.make_opsetid(name, v) for name, v in (domains or {}).items()]
    return onnx.helper.make_model(parsed, opset_imports=imports, ir_version=ir_version)


def save(model: onnx.ModelProto, folder: Path, name: str = "model") -> ModelSource:
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return ModelSource(name=name, path=path)


def normalized(
    model: onnx.ModelProto, folder: Path, bindings: Mapping[str, int] | None = None
) -> Normalized:
    """Normalised, not proven."""
    return normalize_model(save(model, folder), bindings or {})


def through_stage(
    model: onnx.ModelProto, folder: Path, bindings: Mapping[str, int] | None = None
) -> tuple[NormalizeReport, onnx.ModelProto]:
    """Normalised and proven equal by ONNX Runtime; the model as the stage wrote it, checked."""
    out = folder / "out"
    report = normalize(save(model, folder), out, bindings=bindings or {}, seed=7, sample_count=2)
    written = onnx.load(out / "model.onnx")
    check_form(written)
    return report, written


def check_form(model: onnx.ModelProto) -> None:
    """What every normalised model has to be."""
    onnx.checker.check_model(model, full_check=True)
    assert {entry.domain: entry.version for entry in model.opset_import}[""] == 17
    assert model.ir_version <= 10
    initialised = {tensor.name for tensor in model.graph.initializer}
    assert not initialised & {value.name for value in model.graph.input}
    names = [node.name for node in model.graph.node]
    assert all(names)
    assert len(set(names)) == len(names)
    made = {name for node in model.graph.node for name in node.output}
    assert all(value.name in made for value in model.graph.output)
    values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    for value in values:
        assert all(dim.HasField("dim_value") for dim in value.type.tensor_type.shape.dim)
    assert made - {""} <= {value.name for value in values}


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]
