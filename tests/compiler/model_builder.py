"""Builds ONNX models node by node, knowing type and shape of every value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from stages.tensors import Array, Shape

Item = TypeVar("Item")
_ELEMENT = {
    "f32": TensorProto.FLOAT,
    "f16": TensorProto.FLOAT16,
    "f64": TensorProto.DOUBLE,
    "i32": TensorProto.INT32,
    "i64": TensorProto.INT64,
    "i8": TensorProto.INT8,
    "u8": TensorProto.UINT8,
    "bool": TensorProto.BOOL,
}


class Choices(Protocol):
    """Where random decisions come from."""

    def integer(self, low: int, high: int) -> int:
        """An integer in [low, high]; small ones are simpler."""

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items; early ones are simpler."""


@dataclass(frozen=True)
class SeededChoices:
    """Decisions from a seed."""

    random: np.random.Generator

    def integer(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def pick(self, items: Sequence[Item]) -> Item:
        return items[self.integer(0, len(items) - 1)]


@dataclass(frozen=True)
class Value:
    """A value of the model. `exact`: small multiples of 1/8, which every float type holds, so that
    a comparison or a rounding of it can't flip; `positive`: at least 0.4."""

    name: str
    dtype: str
    shape: Shape
    exact: bool = False
    positive: bool = False


@dataclass
class ModelBuilder:
    """A model in the making; the constants' data come from `random`."""

    random: np.random.Generator
    inputs: list[Value] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    feeds: dict[str, Array] = field(default_factory=dict)

    def input(self, shape: Shape) -> Value:
        """A float input, fed with multiples of 1/8 in [-2, 2]."""
        value = Value(f"in{len(self.inputs)}", "f32", shape, exact=True)
        self.inputs.append(value)
        self.values.append(value)
        self.feeds[value.name] = self.eighths(shape)
        return value

    def eighths(self, shape: Shape) -> Array:
        """Random multiples of 1/8 in [-2, 2]."""
        return (self.random.integers(-16, 17, shape) / 8).astype(np.float32)

    def normal(self, shape: Shape, scale: float = 1.0) -> Array:
        """Normal random numbers."""
        return (self.random.standard_normal(shape) * scale).astype(np.float32)

    def constant(self, data: Array | float) -> str:
        """The name of a new constant."""
        array = np.asarray(data, np.float32) if isinstance(data, float) else np.asarray(data)
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def add(
        self,
        operator: str,
        inputs: Sequence[str],
        results: Sequence[tuple[str, Shape]],
        *,
        exact: bool = False,
        positive: bool = False,
        **attributes: object,
    ) -> list[Value]:
        """Add a node; returns its results, which later nodes may read."""
        number = len(self.nodes)
        made = [
            Value(f"v{number}" + (f"_{index}" if index else ""), dtype, shape, exact, positive)
            for index, (dtype, shape) in enumerate(results)
        ]
        self.nodes.append(
            helper.make_node(
                operator,
                list(inputs),
                [value.name for value in made],
                name=f"{operator.lower()}_{number}",
                **attributes,
            )
        )
        self.values += made
        return made

    def float_like(
        self, operator: str, value: Value, *others: str, exact: bool = False, **attributes: object
    ) -> Value:
        """A node whose one result is a float of the shape of its first operand."""
        return self.add(
            operator, [value.name, *others], [("f32", value.shape)], exact=exact, **attributes
        )[0]

    def model(self, outputs: Sequence[Value]) -> onnx.ModelProto:
        """The model, its shapes inferred and checked against the builder's own."""
        graph = helper.make_graph(
            self.nodes,
            "random",
            [_info(value) for value in self.inputs],
            [_info(value) for value in outputs],
            [numpy_helper.from_array(data, name) for name, data in self.constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        model = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        onnx.checker.check_model(model)
        return model


def _info(value: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(value.name, _ELEMENT[value.dtype], value.shape)
