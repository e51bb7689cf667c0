"""A recurrent node's layer: weights, directions, activations; and the values of its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stages.recipe.graph import Attribute
from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.node import Node
from stages.recipe.onnx_import.translation import NotRepresentable, Translation
from stages.tensors import Array, DType, Shape, TensorType

MAX_STEPS = 512
"""Steps of all directions together: each becomes a handful of operators."""

Weights = NDArray[np.float64]
Activation = tuple[Kind, Mapping[str, Attribute]]

ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "GRU": ("Sigmoid", "Tanh"),
    "RNN": ("Tanh",),
}
"""The activations of one direction, where the node doesn't name others."""

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_KINDS: Mapping[str, tuple[Kind, tuple[tuple[str, float], ...]]] = {
    "sigmoid": (Kind.SIGMOID, ()),
    "tanh": (Kind.TANH, ()),
    "relu": (Kind.RELU, ()),
    "softsign": (Kind.SOFTSIGN, ()),
    "softplus": (Kind.SOFTPLUS, ()),
    "leakyrelu": (Kind.LEAKY_RELU, (("alpha", 0.01),)),
    "elu": (Kind.ELU, (("alpha", 1.0),)),
    "hardsigmoid": (Kind.HARD_SIGMOID, (("alpha", 0.2), ("beta", 0.5))),
}
"""Kinds of activations by ONNX's name in lower case, and the defaults of their numbers."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One recurrent node. `steps` are those that are computed, `length` those of its input;
    `batch_first`: the input is [batch, steps, features]."""

    gates: int
    hidden: int
    directions: int
    reverse: bool
    steps: int
    length: int
    batch: int
    features: int
    batch_first: bool
    linear_before_reset: bool
    clip: float
    activations: tuple[Activation, ...]
    input_weights: Weights
    recurrent_weights: Weights
    bias: Weights | None
    peephole_weights: Weights | None

    def biases(self, direction: int) -> tuple[Weights, Weights]:
        """The input's and the state's bias, `gates * hidden` each."""
        width = self.gates * self.hidden
        if self.bias is None:
            zeros = np.zeros(width)
            return zeros, zeros
        return self.bias[direction][:width], self.bias[direction][width:]

    def peepholes(self, direction: int) -> Weights:
        """Peephole weights of the input, output and forget gate."""
        if self.peephole_weights is None:
            return np.zeros(3 * self.hidden)
        return np.asarray(self.peephole_weights[direction])


def read_layer(t: Translation) -> Layer:
    """The layer of an LSTM, GRU or RNN node.

    Raises:
        NotRepresentable: weights or lengths are computed, lengths differ within the batch, the
            input and forget gates are coupled, an activation has no kind, or there are too many
            steps.
    """
    node, kind = t.node, t.node.proto.op_type
    if node.integer("input_forget", 0):
        raise NotRepresentable("its input and forget gates are coupled")
    batch_first = bool(node.integer("layout", 0))
    first, second, features = t.shape(t.operand(0))
    length, batch = (second, first) if batch_first else (first, second)
    direction = node.word("direction", "forward")
    weights, recurrent = _weights(t, 1), _weights(t, 2)
    directions, hidden = recurrent.shape[0], recurrent.shape[2]
    steps = _steps(t, length)
    if not 0 < steps * directions <= MAX_STEPS:
        raise NotRepresentable(f"it has {steps * directions} steps; 1 to {MAX_STEPS} are unrolled")
    return Layer(
        gates=_GATES[kind],
        hidden=hidden,
        directions=directions,
        reverse=direction == "reverse",
        steps=steps,
        length=length,
        batch=batch,
        features=features,
        batch_first=batch_first,
        linear_before_reset=bool(node.integer("linear_before_reset", 0)),
        clip=node.number("clip", 0.0),
        activations=_activations(node, directions),
        input_weights=weights,
        recurrent_weights=recurrent,
        bias=_weights(t, 3) if t.has(3) else None,
        peephole_weights=_weights(t, 7) if t.has(7) else None,
    )


def _weights(t: Translation, position: int) -> Weights:
    data = t.data(t.operand(position))
    if data is None:
        raise NotRepresentable(f"its operand {position} is computed")
    return np.asarray(data, np.float64)


def _steps(t: Translation, length: int) -> int:
    lengths = t.constant_integers(4)
    if lengths is None:
        return length
    if len(set(lengths)) != 1:
        raise NotRepresentable("its sequences have several lengths")
    return lengths[0]


def _activations(node: Node, directions: int) -> tuple[Activation, ...]:
    names = node.words("activations") or ACTIVATIONS[node.proto.op_type] * directions
    alphas, betas = (list(node.numbers(f"activation_{name}")) for name in ("alpha", "beta"))
    found: list[Activation] = []
    for name in names:
        if name.lower() not in _KINDS:
            raise NotRepresentable(f"its activation {name} has no kind")
        kind, numbers = _KINDS[name.lower()]
        given = {"alpha": alphas, "beta": betas}
        attributes = {key: given[key].pop(0) if given[key] else default for key, default in numbers}
        found.append((kind, attributes))
    return tuple(found)


@dataclass(slots=True)
class Steps:
    """Appends the operators of a layer's steps. Matrices are [batch, columns]."""

    t: Translation
    layer: Layer
    _zeros: dict[Shape, str] = field(default_factory=dict)

    @property
    def dtype(self) -> DType:
        """The type of the layer's input."""
        return self.t.type(self.t.operand(0)).dtype

    def add(
        self,
        kind: Kind,
        inputs: Sequence[str],
        shape: Shape,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> str:
        """Append an operator that makes a new value."""
        builder, label = self.t.builder, f"{self.t.node.label}.{kind}"
        target = builder.fresh_value(label, TensorType(self.dtype, shape))
        builder.append(label, kind, inputs, (target,), attributes or {})
        return target

    def constant(self, role: str, data: Weights) -> str:
        """Add a constant of the layer's type."""
        numbers: Array = np.ascontiguousarray(data).astype(self.dtype.numpy)
        return self.t.builder.add_constant(f"{self.t.node.label}.{role}", numbers)

    def sequence(self) -> str:
        """The input of all steps, [steps * batch, features]."""
        layer, value = self.layer, self.t.operand(0)
        if layer.batch_first:
            value = self.t.transposed(value, (1, 0, 2))
        if layer.steps < layer.length:
            stops = (layer.steps, layer.batch, layer.features)
            value = self.add(Kind.SLICE, (value,), stops, _box((0, 0, 0), stops))
        return self.t.reshaped(value, (layer.steps * layer.batch, layer.features))

    def initial(self, position: int, direction: int) -> str:
        """The initial state of a direction, [batch, hidden]; empty where it is zero."""
        if not self.t.has(position):
            return ""
        value, layer = self.t.operand(position), self.layer
        data = self.t.data(value)
        if data is not None and not np.asarray(data).any():
            return ""
        if layer.batch_first:
            value = self.t.transposed(value, (1, 0, 2))
        shape = (layer.directions, layer.batch, layer.hidden)
        if layer.directions > 1:
            starts = (direction, 0, 0)
            stops = (direction + 1, layer.batch, layer.hidden)
            value = self.add(Kind.SLICE, (value,), (1, *shape[1:]), _box(starts, stops))
        return self.t.reshaped(value, shape[1:])

    def order(self, direction: int) -> range:
        """The places of a direction's steps, first to last."""
        backwards = self.layer.reverse or direction == 1
        places = range(self.layer.steps)
        return places[::-1] if backwards else places

    def rows(self, matrix: str, place: int, start: int, width: int) -> str:
        """The rows of one step, and of them `width` columns from `start` on."""
        batch = self.layer.batch
        starts, stops = (place * batch, start), ((place + 1) * batch, start + width)
        return self.add(Kind.SLICE, (matrix,), (batch, width), _box(starts, stops))

    def columns(self, matrix: str, start: int, width: int) -> str:
        """Some columns of a matrix; the matrix where they are all."""
        rows, full = self.t.shape(matrix)
        if full == width:
            return matrix
        box = _box((0, start), (rows, start + width))
        return self.add(Kind.SLICE, (matrix,), (rows, width), box)

    def sum(self, one: str, other: str) -> str:
        """Their sum, of the first one's shape."""
        return self.add(Kind.ADD, (one, other), self.t.shape(one))

    def difference(self, one: str, other: str) -> str:
        """Their difference, of the first one's shape."""
        return self.add(Kind.SUB, (one, other), self.t.shape(one))

    def product(self, one: str, other: str) -> str:
        """Their product, of the first one's shape."""
        return self.add(Kind.MUL, (one, other), self.t.shape(one))

    def activated(self, activation: Activation, value: str) -> str:
        """The value, clipped where the node says so, behind an activation."""
        if self.layer.clip > 0:
            limits: dict[str, Attribute] = {"min": -self.layer.clip, "max": self.layer.clip}
            value = self.add(Kind.CLIP, (value,), self.t.shape(value), limits)
        return self.applied(activation, value)

    def applied(self, activation: Activation, value: str) -> str:
        """The value behind an activation."""
        kind, attributes = activation
        return self.add(kind, (value,), self.t.shape(value), attributes)

    def finish(
        self, rows: Mapping[int, Sequence[str]], hidden: Sequence[str], cells: Sequence[str]
    ) -> None:
        """Append what makes the node's outputs: all hidden states, the last ones, the last
        cells."""
        layer = self.layer
        if self.t.has_output(0):
            order = [value for place in range(layer.steps) for value in rows[place]]
            shape: Shape = (layer.steps, layer.directions, layer.batch, layer.hidden)
            value = self._stacked(order, shape)
            if missing := layer.length - layer.steps:
                value = self._padded(value, shape, missing)
            self._out(0, value, (2, 0, 1, 3))
        for position, finals in ((1, hidden), (2, cells)):
            if self.t.has_output(position):
                shape = (layer.directions, layer.batch, layer.hidden)
                self._out(position, self._stacked(finals, shape), (1, 0, 2))

    def _stacked(self, parts: Sequence[str], shape: Shape) -> str:
        whole = (len(parts) * self.layer.batch, self.layer.hidden)
        value = parts[0] if len(parts) == 1 else self.add(Kind.CONCAT, parts, whole, {"axis": 0})
        return self.add(Kind.RESHAPE, (value,), shape, {"shape": shape})

    def _padded(self, value: str, shape: Shape, missing: int) -> str:
        pads = (0,) * 4 + (missing, 0, 0, 0)
        attributes: dict[str, Attribute] = {"pads": pads, "mode": "constant", "value": 0.0}
        return self.add(Kind.PAD, (value,), (shape[0] + missing, *shape[1:]), attributes)

    def _out(self, position: int, value: str, permutation: tuple[int, ...]) -> None:
        if self.layer.batch_first:
            value = self.t.transposed(value, permutation)
        self.t.alias(value, self.t.node.proto.output[position])


def _box(starts: Shape, stops: Shape) -> dict[str, Attribute]:
    return {"starts": starts, "stops": stops, "steps": (1,) * len(starts)}
