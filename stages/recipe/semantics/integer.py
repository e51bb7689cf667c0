"""Contractions of quantised operands, accumulated exactly as 32-bit integers.

The products run in float32 BLAS on blocks of input channels that are small enough for every partial
sum to be an exact float32 integer (below 2**24), or in float64 where even one channel is too much.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.semantics.contraction import convolve, multiply
from stages.recipe.semantics.formats import along_axis, subtract_zero_point
from stages.recipe.semantics.windows import Values
from stages.tensors import Array

_EXACT = (1 << 24) * (1 - 1e-5)
"""float32 holds every integer up to 2**24; the bounds are themselves summed in float32."""


@dataclass(frozen=True, slots=True)
class Quantized:
    """Integers that mean (values - zero_point) * scale; axis -1 means per tensor."""

    values: Array
    scale: Array
    zero_point: Array | None = None
    axis: int = -1

    @property
    def is_per_tensor(self) -> bool:
        """Whether one scale holds for all."""
        return self.axis < 0 or self.scale.size == 1

    def centred(self) -> Values:
        """The values minus the zero point."""
        return subtract_zero_point(self.values, self.zero_point, self.axis)

    def real(self) -> Values:
        """What the values mean, in float32."""
        scale = along_axis(self.scale, self.axis, self.values.ndim)
        return np.asarray(self.centred().astype(np.float32) * scale.astype(np.float32))


def integer_contraction(
    operator: Operator, x: Quantized, weight: Quantized, bias: Quantized | Array | None = None
) -> Array:
    """A `conv` or `matmul` of quantised operands: exact 32-bit sums, then scaled to float32.

    A bias in the scale of the sums is added to them, another bias to the scaled result.

    Raises:
        ValueError: `fits_integers` doesn't hold.
    """
    if not fits_integers(operator, x, weight):
        raise ValueError(f"{operator.kind} {operator.name!r} can't be accumulated in integers")
    sums = _sums(operator, x, weight)
    scale = (x.scale.astype(np.float32).reshape(()) * weight.scale.astype(np.float32)).reshape(-1)
    if isinstance(bias, Quantized) and _in_scale(bias, scale):
        sums = _wrapped(sums.astype(np.float64) + _by_channel(operator, bias.centred(), sums.ndim))
        bias = None
    result = sums.astype(np.float32, copy=False) * _by_channel(operator, scale, sums.ndim)
    if bias is None:
        return result
    addend = bias.real() if isinstance(bias, Quantized) else bias.astype(np.float32)
    return np.asarray(result + _by_channel(operator, addend, sums.ndim))


def fits_integers(operator: Operator, x: Quantized, weight: Quantized) -> bool:
    """Whether the sums of products share one scale for each output channel.

    That needs a per-tensor scale of x, and a scale of the weights per tensor or along their output
    channels: axis 0 of a convolution's, the last axis of a matrix.
    """
    if operator.kind not in (Kind.CONV, Kind.MATMUL) or not x.is_per_tensor:
        return False
    if weight.is_per_tensor:
        return True
    if operator.kind is Kind.CONV:
        return weight.axis == 0
    return weight.values.ndim >= 2 and weight.axis == weight.values.ndim - 1


def _sums(operator: Operator, x: Quantized, weight: Quantized) -> Values:
    """The exact sums of products, wrapped to 32 bits as hardware accumulators are.

    They come as float32 or float64 that holds integers.
    """
    left, right = x.centred(), weight.centred().astype(np.float32)
    peak = float(max(left.max(initial=0), -int(left.min(initial=0))))
    blocks = _blocks(operator, np.abs(right), peak)
    if len(blocks) == 1:
        return _product(operator, left.astype(np.float32), right)
    if not blocks or (operator.kind is Kind.CONV and operator.integer("group") > 1):
        wide = _product(operator, left.astype(np.float64), right.astype(np.float64))
        return _wrapped(wide)
    axis = 1 if operator.kind is Kind.CONV else -1
    depth = 1 if operator.kind is Kind.CONV else max(right.ndim - 2, 0)
    total: Values | None = None
    for start, stop in blocks:
        part = _product(
            operator,
            _cut(left, axis, start, stop).astype(np.float32),
            _cut(right, depth, start, stop),
        )
        total = part.astype(np.float64) if total is None else total + part
    assert total is not None
    return _wrapped(total)


def _product(operator: Operator, left: Values, right: Values) -> Values:
    return convolve(operator, left, right) if operator.kind is Kind.CONV else multiply(left, right)


def _cut(array: Values, axis: int, start: int, stop: int) -> Values:
    place = axis % array.ndim
    return np.asarray(array[(*(slice(None),) * place, slice(start, stop))])


def _blocks(operator: Operator, size: Values, peak: float) -> list[tuple[int, int]]:
    """Equal ranges of the reduction axis, few enough, in which no partial sum passes 2**24.

    `size` are the magnitudes of the weights, `peak` the largest of x. Empty where even a range of
    one element would.
    """
    is_conv = operator.kind is Kind.CONV
    width = size.shape[1] if is_conv else size.shape[max(size.ndim - 2, 0)]
    if size.size == 0:
        return [(0, width)]
    columns = 1 if size.ndim == 1 else size.shape[-1]
    lines = size.reshape(size.shape[0], -1) if is_conv else size.reshape(-1, width, columns)
    unit = lines.shape[1] // width
    limit = _EXACT / max(peak, 1.0)
    count = 1
    while count <= width:
        places = np.linspace(0, width, count + 1).astype(int)
        worst = float(np.add.reduceat(lines, places[:-1] * unit, axis=1).max())
        if worst <= limit:
            return [(int(start), int(stop)) for start, stop in pairwise(places)]
        count = max(count + 1, min(int(worst * count / limit / 2), width))
    return []


def _wrapped(sums: Values) -> Values:
    if sums.size and max(sums.max(), -sums.min()) >= 1 << 31:
        return sums.astype(np.int64).astype(np.int32).astype(np.float64)
    return sums


def _by_channel(operator: Operator, vector: Values, rank: int) -> Values:
    """A bias or scale of the output channels, shaped to broadcast to the result."""
    if vector.size == 1 or operator.kind is Kind.MATMUL:
        return vector.reshape(()) if vector.size == 1 else vector
    return along_axis(vector, 1, rank)


def _in_scale(bias: Quantized, scale: Values) -> bool:
    """Whether a quantised bias counts in units of the sums, so that it can be added to them."""
    if bias.zero_point is not None and bias.zero_point.any():
        return False
    steps = bias.scale.astype(np.float32).reshape(-1)
    return steps.size in (1, scale.size) and bool((steps == scale).all())
