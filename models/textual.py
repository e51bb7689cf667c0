"""Models written as text: the graph in ONNX's textual syntax, the weights as arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper, parser

Weights = Mapping[str, NDArray[np.generic]]
OPSET = 17
CONTRIB = "com.microsoft"


def model_from_text(graph: str, weights: Weights) -> onnx.ModelProto:
    """A model of operator set 17; the names that `graph` reads and doesn't make are `weights`.

    Raises:
        onnx.parser.ParseError: the text isn't a graph.
        onnx.checker.ValidationError: the graph isn't legal.
    """
    parsed = parser.parse_graph(graph)
    parsed.initializer.extend(
        numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()
    )
    imports = [helper.make_opsetid("", OPSET)]
    if any(node.domain == CONTRIB for node in parsed.node):
        imports.append(helper.make_opsetid(CONTRIB, 1))
    model = helper.make_model(parsed, opset_imports=imports, ir_version=8)
    onnx.checker.check_model(model)
    return model


def convolution_weight(
    rng: np.random.Generator, outputs: int, inputs: int, kernel: int
) -> NDArray[np.float32]:
    """He-scaled weights f32[outputs, inputs, kernel, kernel]."""
    fan_in = inputs * kernel * kernel
    drawn = rng.standard_normal((outputs, inputs, kernel, kernel)) * np.sqrt(2.0 / fan_in)
    return drawn.astype(np.float32)


def matrix(rng: np.random.Generator, rows: int, columns: int) -> NDArray[np.float32]:
    """Weights f32[rows, columns] that keep the variance of what they multiply."""
    return (rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)


def vector(rng: np.random.Generator, length: int, spread: float = 0.1) -> NDArray[np.float32]:
    """A bias f32[length]."""
    return (rng.standard_normal(length) * spread).astype(np.float32)


def batch_norm(
    rng: np.random.Generator, name: str, channels: int
) -> dict[str, NDArray[np.generic]]:
    """Parameters NAME.scale, .bias, .mean, .var of a BatchNormalization, away from 1 and 0."""
    return {
        f"{name}.scale": rng.uniform(0.5, 1.5, channels).astype(np.float32),
        f"{name}.bias": vector(rng, channels),
        f"{name}.mean": vector(rng, channels),
        f"{name}.var": rng.uniform(0.5, 1.5, channels).astype(np.float32),
    }
