"""ONNX Resize, one axis after the other, so that a tile of the result can be made alone.

Coordinates and weights are float32, in ONNX Runtime's order of operations: in another precision
`nearest` picks other elements at ties. Attributes:

- `mode`: nearest | linear | cubic
- `coordinates`: half_pixel | asymmetric | align_corners | pytorch_half_pixel |
  half_pixel_symmetric | tf_half_pixel_for_nn
- `nearest`: round_prefer_floor | round_prefer_ceil | floor | ceil
- `scales`: one for each axis
- `full_input`, `full_output` (optional): extents of the whole tensors, where operand and result are
  boxes of them
- `origin_input`, `origin_output` (optional): where these boxes begin; zeros where missing
- `cubic_coefficient` (optional, -0.75), `exclude_outside` (optional, 0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.recipe.graph import Operator
from stages.recipe.semantics.windows import Values
from stages.tensors import Shape, TensorType

Indices = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ResizeAxis:
    """How one axis is resized; extents are those of the whole tensors."""

    mode: str
    coordinates: str
    nearest: str
    scale: float
    full_input: int
    full_output: int
    cubic_coefficient: float = -0.75
    exclude_outside: bool = False

    @property
    def is_identity(self) -> bool:
        """Whether every result element is the operand's at the same place."""
        return self.scale == 1.0 and self.full_input == self.full_output


def resize_axis(operator: Operator, operand: Shape, result: Shape, axis: int) -> ResizeAxis:
    """The parameters of one axis of a `resize`, given the shapes of its operand and result."""
    attributes = operator.attributes
    scales = operator.numbers("scales")
    coefficient = attributes.get("cubic_coefficient", -0.75)
    assert isinstance(coefficient, int | float)
    full_input = operator.integers("full_input") if "full_input" in attributes else operand
    full_output = operator.integers("full_output") if "full_output" in attributes else result
    return ResizeAxis(
        operator.word("mode"),
        operator.word("coordinates"),
        operator.word("nearest"),
        scales[axis],
        full_input[axis],
        full_output[axis],
        float(coefficient),
        bool(attributes.get("exclude_outside", 0)),
    )


def resize_span(axis: ResizeAxis, start: int, stop: int) -> tuple[int, int]:
    """The half-open range of the whole operand that result elements [start, stop) read."""
    if start >= stop:
        return (0, 0)
    if axis.is_identity:
        return (start, stop)
    indices, _ = _taps(axis, np.arange(start, stop))
    return int(indices.min()), int(indices.max()) + 1


def resize(
    operator: Operator, operands: Sequence[Values | None], results: Sequence[TensorType]
) -> tuple[Values, ...]:
    """Resize a whole tensor, or make one box of the result from one box of the operand."""
    x = operands[0]
    assert x is not None
    operand, result = x.shape, results[0].shape
    zeros = (0,) * len(result)
    attributes = operator.attributes
    begins = operator.integers("origin_input") if "origin_input" in attributes else zeros
    starts = operator.integers("origin_output") if "origin_output" in attributes else zeros
    held = x.dtype
    if operator.word("mode") != "nearest" and held.kind != "f":
        # ONNX Runtime rounds integers once, after the last axis.
        x = x.astype(np.float32)
    for place in reversed(range(len(result))):
        axis = resize_axis(operator, operand, result, place)
        x = _along(x, axis, place, begins[place], starts[place], result[place])
    return (np.asarray(x.astype(held, copy=False)),)


def _along(x: Values, axis: ResizeAxis, place: int, begin: int, start: int, extent: int) -> Values:
    if axis.is_identity:
        if start == begin and extent == x.shape[place]:
            return np.asarray(x)
        lead = (slice(None),) * place
        return np.asarray(x[(*lead, slice(start - begin, start - begin + extent))])
    indices, weights = _taps(axis, np.arange(start, start + extent))
    local = indices - begin
    if weights is None:
        return np.asarray(np.take(x, local[0], axis=place, mode="clip"))
    shape = (-1, *(1,) * (x.ndim - place - 1))
    factors = weights.astype(x.dtype, copy=False)
    total: Values | None = None
    for index, factor in zip(local, factors, strict=True):
        part = np.take(x, index, axis=place, mode="clip")
        part *= factor.reshape(shape)
        total = part if total is None else np.add(total, part, out=total)
    assert total is not None
    return total


def _taps(axis: ResizeAxis, places: Indices) -> tuple[Indices, Floats | None]:
    """Operand indices [taps, result] and their weights; no weights where one element is copied."""
    at = _coordinates(axis, places.astype(np.float32))
    last = axis.full_input - 1
    if axis.mode == "nearest":
        return np.clip(_nearest(axis, at), 0, last).astype(np.int64)[None], None
    if axis.mode == "linear":
        inside = np.clip(at, np.float32(0), np.float32(last))
        low = np.floor(inside)
        part = inside - low
        indices = np.stack([low, np.minimum(low + 1, last)]).astype(np.int64)
        return indices, np.stack([1 - part, part])
    low = np.floor(at)
    weights = _cubic_weights(at - low, np.float32(axis.cubic_coefficient))
    indices = low.astype(np.int64) + np.arange(-1, 3)[:, None]
    if axis.exclude_outside:
        weights = np.where((indices < 0) | (indices > last), np.float32(0), weights)
        weights = weights / weights.sum(axis=0)
    return np.clip(indices, 0, last), weights


def _coordinates(axis: ResizeAxis, places: Floats) -> Floats:
    half, scale = np.float32(0.5), np.float32(axis.scale)
    if axis.coordinates == "asymmetric":
        return places / scale
    if axis.coordinates == "align_corners":
        if axis.full_output == 1:
            return np.zeros_like(places)
        return places * np.float32(axis.full_input - 1) / np.float32(axis.full_output - 1)
    if axis.coordinates == "pytorch_half_pixel" and axis.full_output == 1:
        return np.zeros_like(places)
    middle = (places + half) / scale
    if axis.coordinates == "tf_half_pixel_for_nn":
        return middle
    if axis.coordinates == "half_pixel_symmetric":
        adjustment = np.float32(axis.full_output) / (scale * np.float32(axis.full_input))
        center = np.float32(axis.full_input) / np.float32(2)
        return center * (1 - adjustment) + middle - half
    return middle - half


def _nearest(axis: ResizeAxis, at: Floats) -> Floats:
    if axis.nearest == "floor":
        return np.floor(at)
    if axis.nearest == "ceil":
        return np.ceil(at)
    low = np.floor(at)
    part = at - low
    up = part >= 0.5 if axis.nearest == "round_prefer_ceil" else part > 0.5
    return low + up


def _cubic_weights(part: Floats, a: np.float32) -> Floats:
    """Keys' cubic convolution kernel at distances 1 + part, part, 1 - part, 2 - part."""
    near = np.stack([part, 1 - part])
    far = np.stack([part + 1, 2 - part])
    inner = ((a + 2) * near - (a + 3)) * near * near + 1
    outer = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
    return np.stack([outer[0], inner[0], inner[1], outer[1]])
