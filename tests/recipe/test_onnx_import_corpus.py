"""Real models, where a folder of them is given: import and export compute what the model computes.

Set RECIPE_CORPUS to a folder of .onnx files; without it these tests are skipped.
"""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

from stages.errors import RecipeError
from stages.normalizer.normalize import normalize_model
from stages.normalizer.source import ModelSource
from stages.recipe.kinds import Kind
from stages.recipe.onnx_export import export_recipe
from stages.recipe.onnx_import import import_model
from stages.recipe.semantics import interpret
from stages.recipe.text import parse_recipe, print_recipe
from stages.recipe.verify import verify_graph
from stages.tensors import DType
from tests.recipe.onnx_models import host_call, random_feeds, recipe_of, run_model

FOLDER = os.environ.get("RECIPE_CORPUS", "")
MODELS = sorted(Path(FOLDER).glob("*.onnx")) if FOLDER else []


def bindings(model, stem):
    """An extent for every dynamic axis, such as a user would choose."""
    chosen = {}
    for value in model.graph.input:
        for axis, extent in enumerate(value.type.tensor_type.shape.dim):
            if not extent.HasField("dim_value") or extent.dim_value < 0:
                chosen[f"{value.name}.{axis}"] = _extent(value.name, axis, model, stem)
        if not value.type.tensor_type.shape.dim and value.name == "sr":
            chosen["sr"] = 16000
    return chosen


def _extent(name, axis, model, stem):
    rank = next(len(v.type.tensor_type.shape.dim) for v in model.graph.input if v.name == name)
    if axis == 0:
        return 1
    if rank == 4:
        return {1: 3, 2: 64 if "det" in stem else 48, 3: 192}[axis]
    return {"input_ids": 128, "attention_mask": 128, "input": 512}.get(name, 1)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_corpus(path):
    source = ModelSource(path.stem, path)
    original = onnx.load(path, load_external_data=False)
    try:
        model = normalize_model(source, bindings(original, path.stem)).model
        graph, constants = import_model(model)
    except RecipeError as refusal:
        pytest.skip(f"refused: {refusal}")
    verify_graph(graph, constants)
    recipe = recipe_of(graph)
    assert parse_recipe(print_recipe(recipe)) == recipe
    feeds = random_feeds(graph)
    wanted = run_model(model, feeds)
    meant = interpret(graph, constants, feeds, host_call=host_call(graph))
    exported = run_model(export_recipe(recipe, constants), feeds)
    limit = allowed_error(graph)
    for name, expected, made in zip(graph.outputs, wanted, exported, strict=True):
        assert relative_error(meant[name], expected) < limit, f"%{name}"
        assert relative_error(made, meant[name]) < limit, f"%{name} exported"


def allowed_error(graph):
    """Quantised models round ties apart, and random ones amplify it; narrow floats round."""
    if any(operator.kind is Kind.QUANTIZE for operator in graph.operators):
        return 0.06
    narrow = any(type_.dtype in (DType.F16, DType.BF16) for type_ in graph.types.values())
    return 0.02 if narrow else 1e-4


def relative_error(actual, expected):
    """The length of the error over the length of the values, which count as 1e-4 each at least."""
    a, b = (np.asarray(array, np.float64).reshape(-1) for array in (actual, expected))
    return np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-4 * np.sqrt(b.size))
