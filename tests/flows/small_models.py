"""Small ONNX files for tests of the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def convolution(batch: int | str = 1, side: int | str = 12, channels: int = 8) -> onnx.ModelProto:
    """Conv, Relu, global average and a dense layer, seeded weights; `N`, `H` may be axis names."""
    random = np.random.default_rng(7)
    kernel = random.standard_normal((channels, 3, 3, 3), np.float32) / 5
    dense = random.standard_normal((channels, 4), np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "k"], ["c"], "conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"], "relu"),
            helper.make_node("GlobalAveragePool", ["r"], ["g"], "mean"),
            helper.make_node("Flatten", ["g"], ["f"], "flatten"),
            helper.make_node("MatMul", ["f", "w"], ["y"], "dense"),
        ],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, side, side])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 4])],
        [numpy_helper.from_array(kernel, "k"), numpy_helper.from_array(dense, "w")],
    )
    return _model(graph)


def deep(layers: int = 48, side: int = 48) -> onnx.ModelProto:
    """Enough convolutions, each of another width so that no work serves twice, that each stage
    takes seconds."""
    random = np.random.default_rng(7)
    nodes, weights, value, before = [], [], "x", 3
    for layer in range(layers):
        shape = (channels := 48 + layer, before, 3, 3)
        kernel = random.standard_normal(shape, np.float32) * (2 / np.prod(shape[1:])) ** 0.5
        weights.append(numpy_helper.from_array(kernel.astype(np.float32), f"k{layer}"))
        nodes.append(helper.make_node("Conv", [value, f"k{layer}"], [f"c{layer}"], pads=[1] * 4))
        value = "y" if layer == layers - 1 else f"r{layer}"
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [value]))
        before = channels
    graph = helper.make_graph(
        nodes,
        "deep",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, side, side])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, before, side, side])],
        weights,
    )
    return _model(graph)


def foreign_operator() -> onnx.ModelProto:
    """A model with an operator of a domain that nobody knows."""
    graph = helper.make_graph(
        [helper.make_node("Magic", ["x"], ["y"], "magic", domain="com.example")],
        "foreign",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
    )
    model = _model(graph)
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    return model


def _model(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def save(model: onnx.ModelProto, path: Path) -> Path:
    """Writes a model file."""
    path.write_bytes(model.SerializeToString())
    return path
