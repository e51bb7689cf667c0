"""What an export function writes to: the ONNX nodes of one operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from stages.recipe.graph import Operator
from stages.tensors import Array, DType, Shape, TensorType

NodeAttribute = int | float | str | Sequence[int]


def type_code(dtype: DType) -> int:
    """The ONNX type code of an element type."""
    return int(helper.np_dtype_to_tensor_dtype(dtype.numpy))


@dataclass(slots=True)
class Emitter:
    """The nodes of one operator. `operands` and `target` are names in the type that it computes in.

    `opset` is the version of ONNX that the nodes are written for, 17 or later. `types` holds the
    types of all values of the graph.
    """

    operator: Operator
    types: Mapping[str, TensorType]
    opset: int = 17
    compute: DType = DType.F32
    operands: list[str] = field(default_factory=list)
    target: str = ""
    nodes: list[NodeProto] = field(default_factory=list)
    _count: int = 0

    @property
    def result(self) -> TensorType:
        """The declared type of the first result."""
        return self.types[self.operator.outputs[0]]

    def operand_type(self, position: int) -> TensorType:
        """The declared type of an operand."""
        return self.types[self.operator.inputs[position]]

    def shape(self, position: int) -> Shape:
        """The shape of an operand."""
        return self.operand_type(position).shape

    def has(self, position: int) -> bool:
        """Whether an operand is present."""
        return position < len(self.operator.inputs) and bool(self.operator.inputs[position])

    def fresh(self, role: str) -> str:
        """A name that no value of the graph has."""
        while True:
            self._count += 1
            name = f"{self.operator.outputs[0]}:{role}{self._count}"
            if name not in self.types:
                return name

    def node(
        self,
        op_type: str,
        inputs: Sequence[str],
        attributes: Mapping[str, NodeAttribute] | None = None,
        *,
        output: str = "",
    ) -> str:
        """Append a node and name its result: `output`, or a fresh name."""
        result = output or self.fresh(op_type.lower())
        name = f"{self.operator.name}:{len(self.nodes)}" if self.nodes else self.operator.name
        proto = helper.make_node(op_type, list(inputs), [result], name)
        for key in sorted(attributes or {}):
            proto.attribute.append(helper.make_attribute(key, (attributes or {})[key]))
        self.nodes.append(proto)
        return result

    def finish(
        self,
        op_type: str,
        inputs: Sequence[str],
        attributes: Mapping[str, NodeAttribute] | None = None,
    ) -> None:
        """Append the node that makes the operator's result."""
        self.node(op_type, inputs, attributes, output=self.target)

    def constant(self, data: Array) -> str:
        """Append a Constant node."""
        result = self.fresh("constant")
        proto = helper.make_node("Constant", [], [result], f"{self.operator.name}:{result}")
        tensor = numpy_helper.from_array(np.ascontiguousarray(data).reshape(data.shape))
        proto.attribute.append(helper.make_attribute("value", tensor))
        self.nodes.append(proto)
        return result

    def scalar(self, value: float) -> str:
        """A scalar constant of the type that the operator computes in."""
        return self.constant(np.asarray(value).astype(self.compute.numpy))

    def integers(self, values: Sequence[int]) -> str:
        """A constant list of int64."""
        return self.constant(np.asarray(values, np.int64).reshape(-1))

    def cast(self, value: str, dtype: DType, *, output: str = "") -> str:
        """Append a Cast."""
        return self.node("Cast", (value,), {"to": type_code(dtype)}, output=output)


Exporter = Callable[[Emitter], None]
"""Appends the nodes that make `target` from `operands`."""
