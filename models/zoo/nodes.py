"""Nodes of ONNX graphs one after the other: elementwise operators and movement of data.

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


class NodeBuilder:
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

    def output(self, *values: Value, dtype: str = "f32") -> None:
        """Make values of a type outputs of the graph, under the names that they have."""
        for value in values:
            info = helper.make_tensor_value_info(value.name, _TYPES[dtype], list(value.shape))
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
        inputs = [x.name, self.indices(sizes).name]
        node = helper.make_node("Split", inputs, names, name=f"split_{index}", axis=axis)
        self._nodes.append(node)
        return parts

    def slice(self, x: Value, start: int, stop: int, axis: int, step: int = 1) -> Value:
        """Elements start, start + step, ... before stop, along an axis."""
        shape = list(x.shape)
        shape[axis] = len(range(*slice(start, stop, step).indices(shape[axis])))
        bounds = [self.indices([number]) for number in (start, stop, axis, step)]
        return self.node("Slice", [x, *bounds], shape)

    def resize(self, x: Value, height: int, width: int, mode: str = "nearest") -> Value:
        """Spatial extents made height x width: `nearest` (asymmetric) or `linear` (half pixel)."""
        how = "asymmetric" if mode == "nearest" else "half_pixel"
        attributes = {"mode": mode, "coordinate_transformation_mode": how, "nearest_mode": "floor"}
        shape = (*x.shape[:2], height, width)
        return self.node("Resize", [x, "", "", self.indices(shape)], shape, attributes)

    def upsample(self, x: Value, factor: int = 2) -> Value:
        """Each pixel repeated `factor` x `factor` times."""
        return self.resize(x, x.height * factor, x.width * factor)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """The same elements in another shape, which has no -1."""
        if prod(shape) != prod(x.shape):
            raise ValueError(f"{x.name} of shape {x.shape} can't be {tuple(shape)}")
        return self.node("Reshape", [x, self.indices(shape)], shape)

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        """Axes in another order."""
        shape = [x.shape[axis] for axis in permutation]
        return self.node("Transpose", [x], shape, {"perm": list(permutation)})

    def gather(self, table: Value, indices: Value, axis: int = 0) -> Value:
        """Entries of `table` along an axis."""
        shape = (*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :])
        return self.node("Gather", [table, indices], shape, {"axis": axis})

    def indices(self, numbers: Sequence[int]) -> Value:
        """A constant i64 vector."""
        return self.constant(np.asarray(numbers, np.int64))


_ACTIVATIONS = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "hardswish": "HardSwish",
    "elu": "Elu",
    "softplus": "Softplus",
}


def pair(value: int | tuple[int, int]) -> tuple[int, int]:
    """One number for both axes, or one for each."""
    return value if isinstance(value, tuple) else (value, value)


@cache
def _block() -> NDArray[np.float32]:
    return np.random.default_rng(17).standard_normal(_BLOCK).astype(np.float32)
