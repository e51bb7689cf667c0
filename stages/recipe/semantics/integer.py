"""Contractions of quantised operands, accumulated exactly as 32-bit integers.

The products run in float32 BLAS on blocks of input channels that are small enough for every partial
sum to be an exact float32 integer (below 2**24), or in float64 where even one channel is too much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.semantics.contraction import convolve, multiply
from stages.recipe.semantics.formats import along_axis, subtract_zero_point
from stages.recipe.semantics.windows import Values
from stages.tensors import Array

_EXACT = 1 << 24
"""float32 holds every integer up to this one."""


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

    A 32-bit bias in the scale of the sums is added to them, another bias to the scaled result.

    Raises:
        ValueError: `fits_integers` doesn't hold.
    """
    if not fits_integers(operator, x, weight):
        raise ValueError(f"{operator.kind} {operator.name!r} can't be accumulated in integers")
    sums = accumulate(operator, x, weight)
    channel = 1 if operator.kind is Kind.CONV else -1
    combined = x.scale.astype(np.float32).reshape(()) * weight.scale.astype(np.float32)
    scale = combined.reshape(-1) if combined.size > 1 else combined.reshape(())
    if isinstance(bias, Quantized):
        if _same_scale(bias, scale):
            sums = _wrap(sums + _channelwise(bias.centred().astype(np.int64), sums.ndim, channel))
            bias = None
        else:
            bias = bias.real()
    result = sums.astype(np.float32) * _channelwise(scale, sums.ndim, channel)
    if bias is None:
        return result
    addend = bias.astype(np.float32)
    return np.asarray(result + (_channelwise(addend, sums.ndim, 1) if channel == 1 else addend))


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


def accumulate(operator: Operator, x: Quantized, weight: Quantized) -> NDArray[np.int32]:
    """The exact sums of products, wrapped to 32 bits as hardware accumulators are."""
    left, right = x.centred(), weight.centred()
    peak = int(np.abs(left).max(initial=0))
    if operator.kind is Kind.CONV:
        return _convolution(operator, left, right, peak)
    reduction = right.ndim - 2 if right.ndim >= 2 else 0
    sums = np.abs(right).astype(np.int64).reshape(-1, *right.shape[reduction:]).max(axis=0)
    blocks = _blocks(sums.reshape(right.shape[reduction], -1).T * peak)
    if blocks is None:
        return _wrap(multiply(left.astype(np.float64), right.astype(np.float64)))
    parts = (
        multiply(
            np.ascontiguousarray(left[..., start:stop], np.float32),
            right[(..., slice(start, stop), slice(None))[-right.ndim :]].astype(np.float32)
            if right.ndim >= 2
            else right[start:stop].astype(np.float32),
        )
        for start, stop in blocks
    )
    return _wrap(_total(parts))


def _convolution(operator: Operator, x: Values, weight: Values, peak: int) -> NDArray[np.int32]:
    sums = np.abs(weight).astype(np.int64).reshape(*weight.shape[:2], -1).sum(axis=2)
    blocks = _blocks(sums * peak)
    if blocks is None or (operator.integer("group") > 1 and len(blocks) > 1):
        return _wrap(convolve(operator, x.astype(np.float64), weight.astype(np.float64)))
    if len(blocks) <= 1:
        return _wrap(convolve(operator, x.astype(np.float32), weight.astype(np.float32)))
    parts = (
        convolve(
            operator,
            x[:, start:stop].astype(np.float32),
            weight[:, start:stop].astype(np.float32),
        )
        for start, stop in blocks
    )
    return _wrap(_total(parts))


def _blocks(bounds: NDArray[np.int64]) -> list[tuple[int, int]] | None:
    """Ranges of the reduction axis in which no sum of `bounds` [out, reduction] passes 2**24.

    None where a single element does.
    """
    if bounds.size and int(bounds.max()) > _EXACT:
        return None
    totals = np.cumsum(bounds, axis=1)
    width = bounds.shape[1]
    blocks: list[tuple[int, int]] = []
    start = 0
    done = np.zeros(bounds.shape[0], np.int64)
    while start < width:
        fits = (totals[:, start:] - done[:, None] <= _EXACT).all(axis=0)
        stop = width if fits.all() else start + int(np.argmin(fits))
        blocks.append((start, stop))
        done = totals[:, stop - 1]
        start = stop
    return blocks or [(0, width)]


def _total(parts: object) -> NDArray[np.float64]:
    total: NDArray[np.float64] | None = None
    for part in parts:  # type: ignore[attr-defined]
        total = part.astype(np.float64) if total is None else total + part
    assert total is not None
    return total


def _wrap(sums: Values) -> NDArray[np.int32]:
    return sums.astype(np.int64).astype(np.int32)


def _channelwise(vector: Values, rank: int, channel: int) -> Values:
    return vector if vector.ndim == 0 or channel == -1 else along_axis(vector, channel, rank)


def _same_scale(bias: Quantized, scale: Values) -> bool:
    if bias.zero_point is not None and bias.zero_point.any():
        return False
    return (
        bool(
            np.array_equal(
                np.broadcast_to(bias.scale.reshape(-1), scale.shape or (1,)), scale.reshape(-1)
            )
        )
        if bias.scale.size in (1, scale.size)
        else False
    )
