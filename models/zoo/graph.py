"""A small builder of ONNX graphs for networks of known structure: static shapes, opset 17, batch 1.

For timing only the structure of a network matters, so weights are cheap: one seeded block of
normal numbers, repeated and scaled by 1/sqrt(fan in). Batch normalisation is folded into the
convolution before it, as exporters do in evaluation mode, and leaves it a bias.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod, sqrt
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 17

_BLOCK = 1 << 16
_TYPES = {"f32": TensorProto.FLOAT, "i64": TensorProto.INT64}

_Attributes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the graph under construction: its name and its static shape."""

    name: str
    shape: tuple[int, ...]

    @property
    def channels(self) -> int:
        """Extent of axis 1."""
        return self.shape[1]

    @property
    def height(self) -> int:
        """Extent of axis 2."""
        return self.shape[2]

    @property
    def width(self) -> int:
        """Extent of axis 3."""
        return self.shape[3]


class GraphBuilder:
    """Nodes in order, each helper returning the value that it makes.

    Counts parameters (`parameter_count`: elements of weights and biases) and multiply-accumulates
    of convolutions and matrix products (`mac_count`), which the tests compare with published ones.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.parameter_count = 0
        self.mac_count = 0
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Sequence[int], dtype: str = "f32") -> Value:
        """An input of the graph, `f32` or `i64`."""
        self._inputs.append(helper.make_tensor_value_info(name, _TYPES[dtype], list(shape)))
        return Value(name, tuple(shape))

    def output(self, *values: Value) -> None:
        """Make values outputs of the graph, under the names that they have."""
        for value in values:
            info = helper.make_tensor_value_info(value.name, TensorProto.FLOAT, list(value.shape))
            self._outputs.append(info)

    def build(self) -> onnx.ModelProto:
        """The model, checked.

        Raises:
            onnx.checker.ValidationError, onnx.shape_inference.InferenceError: a node is wrong, or
                a shape isn't the one that was tracked.
        """
        graph = helper.make_graph(
            self._nodes, self.name, self._inputs, self._outputs, self._constants
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 8
        return model

    def node(
        self,
        kind: str,
        inputs: Sequence[Value | str],
        shape: Sequence[int],
        attributes: _Attributes | None = None,
    ) -> Value:
        """Any ONNX node with one output of `shape`."""
        name = f"{kind.lower()}_{len(self._nodes)}"
        names = [item.name if isinstance(item, Value) else item for item in inputs]
        made = helper.make_node(kind, names, [name], name=name, **dict(attributes or {}))
        self._nodes.append(made)
        return Value(name, tuple(shape))

    def weight(self, shape: Sequence[int], fan_in: int) -> Value:
        """A seeded constant of standard deviation 1/sqrt(fan in), counted as parameters."""
        self.parameter_count += prod(shape)
        data = np.resize(_block(), tuple(shape)) * np.float32(1 / sqrt(max(1, fan_in)))
        return self.constant(data)

    def constant(self, data: NDArray[Any]) -> Value:
        """A constant that is no parameter (a shape, an index, a factor)."""
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(data, name))
        return Value(name, tuple(data.shape))

    def constant_like(self, shape: Sequence[int]) -> Value:
        """A seeded constant of a shape, no parameter (positions of a grid, strides)."""
        return self.constant(np.resize(_block(), tuple(shape)))

    def scalar(self, value: float) -> Value:
        """A constant float of rank 0."""
        return self.constant(np.asarray(value, np.float32))

    # --- contractions

    def conv(
        self,
        x: Value,
        channels: int,
        kernel: int | tuple[int, int] = 1,
        stride: int | tuple[int, int] = 1,
        act: str = "",
        *,
        pads: int | tuple[int, int, int, int] | None = None,
        groups: int = 1,
        dilation: int = 1,
        bias: bool = True,
    ) -> Value:
        """A convolution with its batch normalisation folded in, and an activation.

        `pads` is one number for all sides, or (top, left, bottom, right); by default half of the
        dilated kernel, which keeps the extents at stride 1.
        """
        taps, steps = _pair(kernel), _pair(stride)
        reach = [dilation * (tap - 1) + 1 for tap in taps]
        if pads is None:
            sides = (reach[0] // 2, reach[1] // 2) * 2
        else:
            sides = (pads,) * 4 if isinstance(pads, int) else pads
        extents = [
            (x.shape[2 + axis] + sides[axis] + sides[2 + axis] - reach[axis]) // steps[axis] + 1
            for axis in (0, 1)
        ]
        fan_in = x.channels // groups * prod(taps)
        inputs = [x, self.weight((channels, x.channels // groups, *taps), fan_in)]
        if bias:
            inputs.append(self.weight((channels,), fan_in))
        self.mac_count += channels * prod(extents) * fan_in
        attributes = {
            "kernel_shape": taps,
            "strides": steps,
            "pads": sides,
            "dilations": _pair(dilation),
            "group": groups,
        }
        y = self.node("Conv", inputs, (x.shape[0], channels, *extents), attributes)
        return self.activation(y, act)

    def depthwise(
        self,
        x: Value,
        kernel: int | tuple[int, int] = 3,
        stride: int | tuple[int, int] = 1,
        act: str = "",
    ) -> Value:
        """A convolution of each channel on its own."""
        return self.conv(x, x.channels, kernel, stride, act, groups=x.channels)

    def conv_transpose(
        self, x: Value, channels: int, kernel: int, stride: int, act: str = ""
    ) -> Value:
        """A transposed convolution without padding."""
        fan_in = x.channels * kernel * kernel // (stride * stride)
        weights = self.weight((x.channels, channels, kernel, kernel), fan_in)
        extents = [(extent - 1) * stride + kernel for extent in x.shape[2:]]
        self.mac_count += prod(x.shape) * channels * kernel * kernel
        attributes = {"kernel_shape": _pair(kernel), "strides": _pair(stride)}
        inputs = [x, weights, self.weight((channels,), fan_in)]
        y = self.node("ConvTranspose", inputs, (x.shape[0], channels, *extents), attributes)
        return self.activation(y, act)

    def matmul(self, a: Value, b: Value) -> Value:
        """A matrix product over the last two axes."""
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        shape = (*batch, a.shape[-2], b.shape[-1])
        self.mac_count += prod(shape) * a.shape[-1]
        return self.node("MatMul", [a, b], shape)

    def linear(self, x: Value, features: int, act: str = "", *, bias: bool = True) -> Value:
        """A matrix product by weights, with a bias."""
        width = x.shape[-1]
        y = self.matmul(x, self.weight((width, features), width))
        if bias:
            y = self.add(y, self.weight((features,), width))
        return self.activation(y, act)

    # --- elementwise

    def activation(self, x: Value, act: str) -> Value:
        """`act` as torch exports it: "" is none; silu, quick_gelu and gelu come decomposed."""
        match act:
            case "":
                return x
            case "relu" | "sigmoid" | "tanh" | "hardswish" | "elu" | "softplus":
                return self.node(_ACTIVATIONS[act], [x], x.shape)
            case "relu6":
                return self.node("Clip", [x, self.scalar(0.0), self.scalar(6.0)], x.shape)
            case "hardsigmoid":
                return self.node("HardSigmoid", [x], x.shape, {"alpha": 1 / 6, "beta": 0.5})
            case "leaky_relu":
                return self.node("LeakyRelu", [x], x.shape, {"alpha": 0.1})
            case "silu":
                return self.mul(x, self.activation(x, "sigmoid"))
            case "quick_gelu":
                return self.mul(x, self.activation(self.mul(x, self.scalar(1.702)), "sigmoid"))
            case "gelu":
                scaled = self.node("Div", [x, self.scalar(sqrt(2.0))], x.shape)
                curve = self.add(self.node("Erf", [scaled], x.shape), self.scalar(1.0))
                return self.mul(self.mul(x, curve), self.scalar(0.5))
            case _:
                raise ValueError(f"no activation {act!r}")

    def add(self, a: Value, b: Value) -> Value:
        """The sum, broadcast."""
        return self._binary("Add", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """The product, broadcast."""
        return self._binary("Mul", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        """The difference, broadcast."""
        return self._binary("Sub", a, b)

    def div(self, a: Value, b: Value) -> Value:
        """The quotient, broadcast."""
        return self._binary("Div", a, b)

    def clip(self, x: Value, low: float, high: float) -> Value:
        """x kept within [low, high]."""
        return self.node("Clip", [x, self.scalar(low), self.scalar(high)], x.shape)

    def _binary(self, kind: str, a: Value, b: Value) -> Value:
        return self.node(kind, [a, b], np.broadcast_shapes(a.shape, b.shape))

    # --- normalisation

    def softmax(self, x: Value, axis: int = -1) -> Value:
        """Softmax along an axis."""
        return self.node("Softmax", [x], x.shape, {"axis": axis})

    def layer_norm(self, x: Value, epsilon: float = 1e-5) -> Value:
        """Normalisation over the last axis, with scale and bias."""
        width = x.shape[-1]
        inputs = [x, self.weight((width,), width), self.weight((width,), width)]
        attributes = {"axis": -1, "epsilon": epsilon}
        return self.node("LayerNormalization", inputs, x.shape, attributes)

    # --- pooling and reduction

    def max_pool(
        self, x: Value, kernel: int, stride: int = 1, pad: int = 0, *, ceil_mode: bool = False
    ) -> Value:
        """The largest value under a square window."""
        return self._pool("MaxPool", x, kernel, stride, pad, ceil_mode)

    def average_pool(self, x: Value, kernel: int, stride: int = 1, pad: int = 0) -> Value:
        """The mean under a square window."""
        return self._pool("AveragePool", x, kernel, stride, pad, False)

    def _pool(
        self, kind: str, x: Value, kernel: int, stride: int, pad: int, ceil_mode: bool
    ) -> Value:
        spare = stride - 1 if ceil_mode else 0
        extents = [(extent + 2 * pad - kernel + spare) // stride + 1 for extent in x.shape[2:]]
        attributes = {
            "kernel_shape": _pair(kernel),
            "strides": _pair(stride),
            "pads": [pad] * 4,
            "ceil_mode": int(ceil_mode),
        }
        return self.node(kind, [x], (*x.shape[:2], *extents), attributes)

    def global_average_pool(self, x: Value) -> Value:
        """The mean of each channel, extents 1."""
        return self.node("GlobalAveragePool", [x], (*x.shape[:2], *[1] * (len(x.shape) - 2)))

    def reduce(self, kind: str, x: Value, axis: int) -> Value:
        """`ReduceMean`, `ReduceMax` (axes as attribute) or `ReduceSum` along an axis, kept."""
        shape = list(x.shape)
        shape[axis] = 1
        if kind == "ReduceSum":
            return self.node(kind, [x, self._indices([axis])], shape)
        return self.node(kind, [x], shape, {"axes": [axis], "keepdims": 1})

    # --- movement

    def concat(self, values: Sequence[Value], axis: int = 1) -> Value:
        """Values one after the other along an axis."""
        shape = list(values[0].shape)
        shape[axis] = sum(value.shape[axis] for value in values)
        return self.node("Concat", values, shape, {"axis": axis})

    def split(self, x: Value, sizes: Sequence[int], axis: int = 1) -> list[Value]:
        """Parts of given sizes along an axis, by one node."""
        index = len(self._nodes)
        parts = []
        for number, size in enumerate(sizes):
            shape = list(x.shape)
            shape[axis] = size
            parts.append(Value(f"split_{index}_{number}", tuple(shape)))
        names = [part.name for part in parts]
        inputs = [x.name, self._indices(sizes).name]
        node = helper.make_node("Split", inputs, names, name=f"split_{index}", axis=axis)
        self._nodes.append(node)
        return parts

    def slice(self, x: Value, start: int, stop: int, axis: int, step: int = 1) -> Value:
        """Elements start, start + step, ... before stop, along an axis."""
        shape = list(x.shape)
        shape[axis] = len(range(*slice(start, stop, step).indices(shape[axis])))
        bounds = [self._indices([number]) for number in (start, stop, axis, step)]
        return self.node("Slice", [x, *bounds], shape)

    def resize(self, x: Value, height: int, width: int, mode: str = "nearest") -> Value:
        """Spatial extents made height x width: `nearest` (asymmetric) or `linear` (half pixel)."""
        how = "asymmetric" if mode == "nearest" else "half_pixel"
        attributes = {"mode": mode, "coordinate_transformation_mode": how, "nearest_mode": "floor"}
        shape = (*x.shape[:2], height, width)
        return self.node("Resize", [x, "", "", self._indices(shape)], shape, attributes)

    def upsample(self, x: Value, factor: int = 2) -> Value:
        """Each pixel repeated `factor` x `factor` times."""
        return self.resize(x, x.height * factor, x.width * factor)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """The same elements in another shape, which has no -1."""
        if prod(shape) != prod(x.shape):
            raise ValueError(f"{x.name} of shape {x.shape} can't be {tuple(shape)}")
        return self.node("Reshape", [x, self._indices(shape)], shape)

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        """Axes in another order."""
        shape = [x.shape[axis] for axis in permutation]
        return self.node("Transpose", [x], shape, {"perm": list(permutation)})

    def gather(self, table: Value, indices: Value, axis: int = 0) -> Value:
        """Entries of `table` along an axis."""
        shape = (*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :])
        return self.node("Gather", [table, indices], shape, {"axis": axis})

    def _indices(self, numbers: Sequence[int]) -> Value:
        return self.constant(np.asarray(numbers, np.int64))


_ACTIVATIONS = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "hardswish": "HardSwish",
    "elu": "Elu",
    "softplus": "Softplus",
}


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


@cache
def _block() -> NDArray[np.float32]:
    return np.random.default_rng(17).standard_normal(_BLOCK).astype(np.float32)
