"""A small package, with weights of every kind that is easily lost on the way to a file."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from stages.package import Manifest, Package
from stages.recipe.decisions import Engine, Group, Recipe, Target
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind
from stages.tensors import Array, DType, TensorType
from tests.plan.sample_plan import legal_plan, small_spec


def sample_weights() -> dict[str, Array]:
    """Random weights for the plan, and odd ones beside."""
    random = np.random.default_rng(7)
    return {
        "conv1.weight": random.normal(size=(8, 8, 3, 3)).astype(np.float16),
        "table": random.normal(size=(16, 8)).astype(np.float16),
        "a name/with: Ünicode": random.normal(size=(3, 5)).astype(ml_dtypes.bfloat16),
        "flags": np.array([True, False, True]),
        "scalar": np.array(3.5, np.float64),
        "empty": np.zeros((0, 4), np.int64),
        "turned": random.integers(-9, 9, (4, 6)).astype(np.int8).T,
        "big_endian": np.arange(5, dtype=">u4"),
    }


def sample_package() -> Package:
    """A package whose recipe has one operator."""
    tensor = TensorType(DType.F16, (1, 8, 8, 8))
    graph = Graph(
        "sample",
        ("x",),
        ("y",),
        (),
        {"x": tensor, "y": tensor},
        (Operator("act", Kind.SIGMOID, ("x",), ("y",)),),
    )
    spec = small_spec()
    recipe = Recipe(graph, Target(spec.name, "1.0"), (Group("act", ("act",), Engine.VECTOR),))
    manifest = Manifest(
        model="sample",
        model_sha256="1" * 64,
        hardware=spec.name,
        hardware_version=spec.version,
        hardware_sha256=spec.digest,
        compiler_version="0.1.0",
    )
    return Package(recipe, legal_plan(), sample_weights(), manifest)
