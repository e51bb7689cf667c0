"""What a translation function works on: the graph that grows, and one node of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.node import Node
from stages.tensors import Array, DType, Shape, TensorType


class NotRepresentable(Exception):  # noqa: N818 - an answer between translators, not an error
    """No kind means what this node does; it becomes a `host_call`.

    `why` completes "the node runs on the host: ...".
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(slots=True)
class GraphBuilder:
    """The graph while it is built. `aliases` maps a value to the one that holds the same data."""

    types: dict[str, TensorType]
    constants: dict[str, Array]
    taken: set[str]
    operators: list[Operator] = field(default_factory=list)
    producers: dict[str, Operator] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    _operator_names: set[str] = field(default_factory=set)

    def resolve(self, name: str) -> str:
        """The value that a name of the model stands for."""
        while name in self.aliases:
            name = self.aliases[name]
        return name

    def fresh_value(self, base: str, tensor_type: TensorType) -> str:
        """Declare a value under a name that nothing else has."""
        name = _unused(base, self.taken)
        self.taken.add(name)
        self.types[name] = tensor_type
        return name

    def add_constant(self, base: str, data: Array) -> str:
        """Add a constant under a name that nothing else has."""
        name = self.fresh_value(base, TensorType(DType.of(data.dtype), data.shape))
        self.constants[name] = data
        return name

    def append(
        self,
        label: str,
        kind: Kind,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, Attribute],
    ) -> None:
        """Append an operator, named after `label`."""
        name = _unused(label, self._operator_names)
        self._operator_names.add(name)
        operator = Operator(name, kind, tuple(inputs), tuple(outputs), dict(attributes))
        self.operators.append(operator)
        self.producers.update(dict.fromkeys(outputs, operator))

    def rewind(self, operator_count: int, results: Iterable[str]) -> None:
        """Drop the operators beyond the first `operator_count`, and what `results` stood for."""
        for operator in self.operators[operator_count:]:
            self._operator_names.discard(operator.name)
            for output in operator.outputs:
                self.producers.pop(output, None)
        del self.operators[operator_count:]
        for name in results:
            self.aliases.pop(name, None)


def _unused(base: str, taken: set[str]) -> str:
    name, count = base, 1
    while name in taken:
        count += 1
        name = f"{base}.{count}"
    return name


@dataclass(frozen=True, slots=True)
class Translation:
    """One node being translated: its operands by position, and where its operators go."""

    builder: GraphBuilder
    node: Node

    @property
    def output(self) -> str:
        """The node's first output."""
        return str(self.node.proto.output[0])

    @property
    def result(self) -> TensorType:
        """The type of the node's first output."""
        return self.builder.types[self.output]

    @property
    def operand_count(self) -> int:
        """Operand positions written, empty ones counted."""
        return len(self.node.proto.input)

    def has(self, position: int) -> bool:
        """Whether an operand is present."""
        return position < self.operand_count and bool(self.node.proto.input[position])

    def operand(self, position: int) -> str:
        """The value at an operand position; empty where it is omitted."""
        if not self.has(position):
            return ""
        return self.builder.resolve(self.node.proto.input[position])

    def operands(self) -> list[str]:
        """All operands; empty names where omitted."""
        return [self.operand(position) for position in range(self.operand_count)]

    def type(self, value: str) -> TensorType:
        """The type of a value."""
        return self.builder.types[value]

    def shape(self, value: str) -> Shape:
        """The shape of a value."""
        return self.builder.types[value].shape

    def data(self, value: str) -> Array | None:
        """The data of a constant; None for anything else."""
        return self.builder.constants.get(value)

    def constant_integers(self, position: int) -> tuple[int, ...] | None:
        """A constant operand as integers; None where it is omitted.

        Raises:
            NotRepresentable: the operand isn't constant.
        """
        if not self.has(position):
            return None
        data = self.data(self.operand(position))
        if data is None:
            raise NotRepresentable(f"its operand {position} is computed")
        return tuple(int(item) for item in np.asarray(data).reshape(-1))

    def constant_number(self, position: int, default: float) -> float:
        """A constant scalar operand as a number.

        Raises:
            NotRepresentable: the operand isn't a constant of one element.
        """
        if not self.has(position):
            return default
        data = self.data(self.operand(position))
        if data is None or data.size != 1:
            raise NotRepresentable(f"its operand {position} is computed, or no scalar")
        return float(np.asarray(data, np.float64).reshape(()))

    def has_output(self, position: int) -> bool:
        """Whether an output is named."""
        return position < len(self.node.proto.output) and bool(self.node.proto.output[position])

    def emit(
        self,
        kind: Kind,
        inputs: Sequence[str],
        attributes: Mapping[str, Attribute] | None = None,
        *,
        output: str = "",
    ) -> str:
        """Append an operator that makes the node's first output (or `output`)."""
        target = output or self.output
        self.builder.append(self.node.label, kind, inputs, (target,), attributes or {})
        return target

    def step(
        self,
        kind: Kind,
        inputs: Sequence[str],
        tensor_type: TensorType,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> str:
        """Append an operator that makes an intermediate value of this type."""
        target = self.builder.fresh_value(f"{self.output}.{kind}", tensor_type)
        self.builder.append(f"{self.node.label}.{kind}", kind, inputs, (target,), attributes or {})
        return target

    def constant(self, role: str, data: Array) -> str:
        """Add a constant, named after the node's output."""
        return self.builder.add_constant(f"{self.output}.{role}", data)

    def scalar(self, role: str, value: float, dtype: DType) -> str:
        """Add a scalar constant."""
        return self.constant(role, np.asarray(value).astype(dtype.numpy))

    def alias(self, value: str, output: str = "") -> None:
        """Let an output of the node be another name of a value; reshaped where shapes differ."""
        target = output or self.output
        if self.shape(target) != self.shape(value):
            self.emit(Kind.RESHAPE, (value,), {"shape": self.shape(target)}, output=target)
        else:
            self.builder.aliases[target] = value

    def reshaped(self, value: str, shape: Shape) -> str:
        """The value in another shape: a constant's data, or an operator's result."""
        if self.shape(value) == shape:
            return value
        data = self.data(value)
        if data is not None:
            return self.builder.add_constant(f"{value}.reshape", data.reshape(shape))
        tensor_type = TensorType(self.type(value).dtype, shape)
        return self.step(Kind.RESHAPE, (value,), tensor_type, {"shape": shape})

    def transposed(self, value: str, permutation: tuple[int, ...]) -> str:
        """The value with its axes permuted: a constant's data, or an operator's result."""
        if permutation == tuple(range(len(permutation))):
            return value
        data = self.data(value)
        if data is not None:
            moved = np.ascontiguousarray(np.transpose(data, permutation))
            return self.builder.add_constant(f"{value}.transpose", moved)
        source = self.type(value)
        shape = tuple(source.shape[axis] for axis in permutation)
        moved_type = TensorType(source.dtype, shape)
        producer = self.builder.producers.get(value)
        if producer is not None and producer.kind is Kind.DEQUANTIZE:
            return self._transposed_beneath(producer, permutation, moved_type, value)
        return self.step(Kind.TRANSPOSE, (value,), moved_type, {"permutation": permutation})

    def _transposed_beneath(
        self, producer: Operator, permutation: tuple[int, ...], moved_type: TensorType, value: str
    ) -> str:
        """Transpose quantised weights below their `dequantize`, so that they stay constant."""
        if self.data(producer.inputs[0]) is None:
            return self.step(Kind.TRANSPOSE, (value,), moved_type, {"permutation": permutation})
        axis = producer.integer("axis")
        inputs = (self.transposed(producer.inputs[0], permutation), *producer.inputs[1:])
        attributes = {"axis": axis if axis < 0 else permutation.index(axis)}
        return self.step(Kind.DEQUANTIZE, inputs, moved_type, attributes)


Attributes = Mapping[str, Attribute]
"""The attributes of an operator."""

Translator = Callable[[Translation], None]
"""Appends the operators that mean a node.

Raises:
    NotRepresentable: no kinds mean it; what was appended is dropped again.
"""


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    return axis + rank if axis < 0 else axis
