"""A recurrent node's layer: weights, directions, activations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.recipe.graph import Attribute
from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.node import Node
from stages.recipe.onnx_import.translation import NotRepresentable, Translation

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

    def together(self) -> tuple[tuple[int, ...], ...]:
        """The directions whose steps go together."""
        half = len(self.activations) // self.directions
        same = self.activations[:half] == self.activations[half:]
        return (
            ((0, 1),)
            if same and self.directions == 2
            else tuple((direction,) for direction in range(self.directions))
        )

    def activations_of(self, direction: int) -> tuple[Activation, ...]:
        """The activations of one direction."""
        count = len(self.activations) // self.directions
        return self.activations[direction * count : (direction + 1) * count]

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
