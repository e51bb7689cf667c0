"""The values of a recurrent layer's steps, of one direction or of both at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stages.recipe.graph import Attribute
from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.recurrent_layer import Activation, Layer, Weights
from stages.recipe.onnx_import.translation import Translation
from stages.tensors import Array, DType, Shape, TensorType


@dataclass(frozen=True, slots=True)
class Steps:
    """Appends the operators of the steps of `directions`. Matrices are [batch, columns], with an
    axis for the direction in front where two go together."""

    t: Translation
    layer: Layer
    directions: tuple[int, ...]

    @property
    def lead(self) -> Shape:
        """The axis in front of matrices, where there is one."""
        return (2,) if len(self.directions) == 2 else ()

    @property
    def activations(self) -> tuple[Activation, ...]:
        """The activations of each of the directions."""
        return self.layer.activations_of(self.directions[0])

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

    def stacked(self, parts: Sequence[Weights]) -> Weights:
        """One array for each direction as one array: itself where there is one direction."""
        return np.stack(parts) if self.lead else parts[0]

    def recurrent(self, role: str, start: int, stop: int) -> str:
        """The state's weights of some gates, as [hidden, columns]."""
        weights = (self.layer.recurrent_weights[direction] for direction in self.directions)
        return self.constant(role, self.stacked([part[start:stop].T for part in weights]))

    def recurrent_shift(self, start: int, stop: int) -> str:
        """The state's bias of some gates, to be added to [batch, columns]; empty where zero."""
        parts = [self.layer.biases(direction)[1][start:stop] for direction in self.directions]
        return self._row_constant("Rb", parts)

    def peephole(self, place: int) -> str:
        """The peephole weights of the input, output or forget gate; empty where zero."""
        size = self.layer.hidden
        parts = [
            self.layer.peepholes(direction)[place * size : (place + 1) * size]
            for direction in self.directions
        ]
        return self._row_constant(f"P{place}", parts)

    def _row_constant(self, role: str, parts: Sequence[Weights]) -> str:
        if not any(part.any() for part in parts):
            return ""
        return self.constant(role, np.stack(parts)[:, None] if self.lead else parts[0])

    def sequence(self) -> str:
        """The input of all steps, [steps * batch, features]; for two directions the second has
        its steps in the order in which it takes them, last first."""
        layer, value = self.layer, self.t.operand(0)
        if layer.batch_first:
            value = self.t.transposed(value, (1, 0, 2))
        shape = (layer.steps, layer.batch, layer.features)
        if layer.steps < layer.length:
            value = self.add(Kind.SLICE, (value,), shape, _box((0, 0, 0), shape))
        if self.lead:
            reverse: dict[str, Attribute] = {
                "starts": (layer.steps - 1, 0, 0),
                "stops": (-1, *shape[1:]),
                "steps": (-1, 1, 1),
            }
            backwards = self.add(Kind.SLICE, (value,), shape, reverse)
            both = (2 * layer.steps, *shape[1:])
            value = self.add(Kind.CONCAT, (value, backwards), both, {"axis": 0})
        return self.t.reshaped(value, (*self.lead, layer.steps * layer.batch, layer.features))

    def initial(self, position: int) -> str:
        """The initial state; empty where it is zero."""
        if not self.t.has(position):
            return ""
        value, layer = self.t.operand(position), self.layer
        data = self.t.data(value)
        if data is not None and not np.asarray(data).any():
            return ""
        if layer.batch_first:
            value = self.t.transposed(value, (1, 0, 2))
        shape = (layer.batch, layer.hidden)
        if layer.directions > len(self.directions):
            (direction,) = self.directions
            box = _box((direction, 0, 0), (direction + 1, *shape))
            value = self.add(Kind.SLICE, (value,), (1, *shape), box)
        return self.t.reshaped(value, (*self.lead, *shape))

    def row(self, matrix: str, number: int) -> str:
        """What the step of that number reads of the input products."""
        layer = self.layer
        backwards = not self.lead and (layer.reverse or self.directions == (1,))
        place = layer.steps - 1 - number if backwards else number
        width = self.t.shape(matrix)[-1]
        starts = (*(0 for _ in self.lead), place * layer.batch, 0)
        stops = (*self.lead, (place + 1) * layer.batch, width)
        shape = (*self.lead, layer.batch, width)
        return self.add(Kind.SLICE, (matrix,), shape, _box(starts, stops))

    def parts(self, value: str, number: int) -> Iterator[tuple[int, int, str]]:
        """For each direction that state: the direction, the place of its step, and the state."""
        layer = self.layer
        shape = (layer.batch, layer.hidden)
        for index, direction in enumerate(self.directions):
            backwards = layer.reverse or direction == 1
            place = layer.steps - 1 - number if backwards else number
            if not self.lead:
                yield direction, place, value
            elif self.t.has_output(0):
                box = _box((index, 0, 0), (index + 1, *shape))
                part = self.add(Kind.SLICE, (value,), (1, *shape), box)
                yield direction, place, self.t.reshaped(part, shape)

    def columns(self, matrix: str, start: int, width: int) -> str:
        """Some columns of a matrix; the matrix where they are all."""
        *lead, full = self.t.shape(matrix)
        if full == width:
            return matrix
        box = _box((*(0 for _ in lead), start), (*lead, start + width))
        return self.add(Kind.SLICE, (matrix,), (*lead, width), box)

    def contracted(self, hidden: str, weights: str, width: int) -> str:
        """The product of the state with weights."""
        shape = (*self.t.shape(hidden)[:-1], width)
        return self.add(Kind.MATMUL, (hidden, weights), shape)

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


def finish(steps: Steps, rows: Sequence[str], hidden: Sequence[str], cells: Sequence[str]) -> None:
    """Append what makes the node's outputs: all hidden states (`rows`, by step, then direction),
    the last ones, the last cells."""
    layer, t = steps.layer, steps.t
    if t.has_output(0):
        shape: Shape = (layer.steps, layer.directions, layer.batch, layer.hidden)
        value = _joined(steps, rows, shape)
        if missing := layer.length - layer.steps:
            value = _padded(steps, value, shape, missing)
        _out(steps, 0, value, (2, 0, 1, 3))
    for position, finals in ((1, hidden), (2, cells)):
        if t.has_output(position):
            shape = (layer.directions, layer.batch, layer.hidden)
            _out(steps, position, _joined(steps, finals, shape), (1, 0, 2))


def _joined(steps: Steps, parts: Sequence[str], shape: Shape) -> str:
    whole = (int(np.prod(shape[:-1])), shape[-1])
    flat = [steps.t.reshaped(part, (whole[0] // len(parts), whole[1])) for part in parts]
    value = flat[0] if len(flat) == 1 else steps.add(Kind.CONCAT, flat, whole, {"axis": 0})
    return steps.add(Kind.RESHAPE, (value,), shape, {"shape": shape})


def _padded(steps: Steps, value: str, shape: Shape, missing: int) -> str:
    pads = (0,) * 4 + (missing, 0, 0, 0)
    attributes: dict[str, Attribute] = {"pads": pads, "mode": "constant", "value": 0.0}
    return steps.add(Kind.PAD, (value,), (shape[0] + missing, *shape[1:]), attributes)


def _out(steps: Steps, position: int, value: str, permutation: tuple[int, ...]) -> None:
    if steps.layer.batch_first:
        value = steps.t.transposed(value, permutation)
    steps.t.alias(value, steps.t.node.proto.output[position])


def _box(starts: Shape, stops: Shape) -> dict[str, Attribute]:
    return {"starts": starts, "stops": stops, "steps": (1,) * len(starts)}
