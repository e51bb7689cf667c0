"""QDQ models with random weights, made for the accuracy tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from stages.normalizer.sample_files import save_samples
from stages.tensors import Array

RMS_STEPS = 12.0
"""Root mean square of each quantised activation, in steps."""


@dataclass
class QdqBuilder:
    """Adds operators between quantised activations.

    `wrong_scales`: scales by value that its QuantizeLinear gets in place of the right one, which
    its DequantizeLinear keeps.
    """

    wrong_scales: dict[str, float] = field(default_factory=dict)
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)

    def constant(self, name: str, array: Array) -> str:
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def quantized(self, value: str, scale: float, zero_point: int = 0) -> str:
        """The value through a QDQ pair."""
        zero = self.constant(f"{value}.zero", np.int8(zero_point))
        right = self.constant(f"{value}.scale", np.float32(scale))
        used = right
        if value in self.wrong_scales:
            used = self.constant(f"{value}.wrong", np.float32(self.wrong_scales[value]))
        self.node("QuantizeLinear", [value, used, zero], f"{value}.q")
        return self.node("DequantizeLinear", [f"{value}.q", right, zero], f"{value}.dq")

    def weight(self, name: str, shape: tuple[int, ...]) -> str:
        """Int8 weights, one scale for each output channel, that keep the variance."""
        drawn = self.generator.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        scale = (np.abs(drawn).reshape(shape[0], -1).max(axis=1) / 127).astype(np.float32)
        steps = np.rint(drawn / scale.reshape(-1, 1, 1, 1)).astype(np.int8)
        parameters = [
            self.constant(f"{name}.q", steps),
            self.constant(f"{name}.scale", scale),
            self.constant(f"{name}.zero", np.zeros(shape[0], np.int8)),
        ]
        return self.node("DequantizeLinear", parameters, f"{name}.dq", axis=0)

    def node(self, kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def save(self, folder: Path, shape: list[int], output: str, sample_count: int) -> None:
        """A normalised folder."""
        graph = helper.make_graph(
            self.nodes,
            "quantized",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            self.initializers,
        )
        opsets = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        folder.mkdir()
        onnx.save(model, folder / "model.onnx")
        drawn = np.random.default_rng(3)
        samples = [
            {"x": drawn.standard_normal(shape).astype(np.float32)} for _ in range(sample_count)
        ]
        save_samples(folder / "samples.npz", samples)


def shallow_cnn(folder: Path, wrong_scales: dict[str, float] | None = None) -> None:
    """Three convolutions with a residual and a ReLU."""
    builder = QdqBuilder(wrong_scales or {})
    x = builder.quantized("x", 3 / 127)
    builder.node("Conv", [x, builder.weight("w0", (8, 3, 3, 3))], "c0", pads=[1, 1, 1, 1])
    builder.node("Relu", ["c0"], "r0")
    first = builder.quantized("r0", 3 / 255, -128)
    builder.node("Conv", [first, builder.weight("w1", (8, 8, 3, 3))], "c1", pads=[1, 1, 1, 1])
    second = builder.quantized("c1", 3 / 127)
    builder.node("Add", [first, second], "sum")
    third = builder.quantized("sum", 4 / 127)
    builder.node("Conv", [third, builder.weight("w2", (8, 8, 1, 1))], "c2")
    builder.save(folder, [1, 3, 16, 16], builder.quantized("c2", 4 / 127), 2)


def deep_chain(folder: Path, wrong_scales: dict[str, float] | None = None, depth: int = 16) -> None:
    """Chaotic: a float layer, whose rounding flips some of 131,072 steps, then a chain in which a
    step flipped in one layer flips about seventeen in the next, until all is noise."""
    builder = QdqBuilder(wrong_scales or {})
    drawn = builder.generator.standard_normal((32, 3, 3, 3)) / np.sqrt(27)
    weight = builder.constant("w", drawn.astype(np.float32))
    builder.node("Conv", ["x", weight], "stem", pads=[1, 1, 1, 1])
    value = builder.quantized("stem", 1 / 40)
    builder.node("Conv", [value, builder.weight("w0", (32, 32, 4, 4))], "c0", strides=[4, 4])
    value = builder.quantized("c0", 1 / RMS_STEPS)
    for index in range(1, depth):
        kernel = builder.weight(f"w{index}", (32, 32, 3, 3))
        builder.node("Conv", [value, kernel], f"c{index}", pads=[1, 1, 1, 1])
        value = builder.quantized(f"c{index}", 1 / RMS_STEPS)
    builder.save(folder, [1, 3, 64, 64], value, 1)
