"""Convolutions and matrix products as one BLAS product for each block of columns."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from stages.recipe.graph import Operator
from stages.recipe.semantics.windows import (
    Values,
    pad_or_crop,
    tap_slices,
    tap_views,
    window_view,
)
from stages.recipe.window import Window
from stages.tensors import Shape, TensorType

_COLUMN_BYTES = 4 << 20
"""Columns are made in blocks of about this size: larger ones leave the cache between the copy and
the product."""
_TAP_BYTES = 256 << 10
"""Depthwise channels are taken in blocks whose sums stay in the second-level cache."""


def conv(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """ONNX Conv: x [batch, in, *spatial], w [out, in/group, *kernel], bias [out]."""
    x, weight, bias = _three(operands)
    return (add_bias(convolve(operator, x, weight), bias, axis=1),)


def convolve(operator: Operator, x: Values, weight: Values) -> Values:
    """The convolution without its bias, in the operands' own precision."""
    window = Window.of(operator, weight.shape[2:])
    group = operator.integer("group")
    batch, out = x.shape[0], weight.shape[0]
    extents = window.result_extents(x.shape[2:])
    if prod((batch, out, *extents)) == 0 or weight.size == 0:
        return np.zeros((batch, out, *extents), x.dtype)
    if window.is_pointwise and group == 1:
        columns = x.reshape(batch, x.shape[1], -1)
        product = np.matmul(weight.reshape(out, -1), columns)
        return np.asarray(product.reshape(batch, out, *extents))
    padded = pad_or_crop(x, window.begins, window.ends, 0)
    if weight.shape[1] == 1 and group > 1:
        return _depthwise(padded, weight, window, extents)
    return _by_columns(padded, weight, window, extents, group)


def _by_columns(
    padded: Values, weight: Values, window: Window, extents: Shape, group: int
) -> Values:
    batch, out = padded.shape[0], weight.shape[0]
    depth = weight[0].size
    first, rest = extents[0], prod(extents[1:])
    view = window_view(padded, window, extents)
    axis = 2 + len(extents)
    matrix = np.ascontiguousarray(weight).reshape(group, out // group, depth)
    result = np.empty((batch, group, out // group, first * rest), padded.dtype)
    row_bytes = batch * group * depth * rest * padded.itemsize
    rows = max(1, min(first, _COLUMN_BYTES // row_bytes))
    for start in range(0, first, rows):
        stop = min(start + rows, first)
        block = view[(slice(None),) * axis + (slice(start, stop),)]
        columns = block.reshape(batch, group, depth, (stop - start) * rest)
        result[..., start * rest : stop * rest] = np.matmul(matrix, columns)
    return result.reshape(batch, out, *extents)


def _depthwise(padded: Values, weight: Values, window: Window, extents: Shape) -> Values:
    batch, channels = padded.shape[:2]
    multiplier = weight.shape[0] // channels
    ones = (1,) * len(extents)
    by_tap = weight.reshape(channels, multiplier, -1)
    result = np.zeros((batch, channels, multiplier, *extents), padded.dtype)
    channel_bytes = batch * multiplier * prod(extents) * padded.itemsize
    block = max(1, _TAP_BYTES // channel_bytes)
    for start in range(0, channels, block):
        part = slice(start, start + block)
        total = result[:, part]
        scaled = np.empty_like(total)
        for tap, view in enumerate(tap_views(padded[:, part], window, extents)):
            factor = by_tap[part, :, tap].reshape(-1, multiplier, *ones)
            np.multiply(view[:, :, None], factor, out=scaled)
            total += scaled
    return result.reshape(batch, channels * multiplier, *extents)


def conv_transpose(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """ONNX ConvTranspose: x [batch, in, *spatial], w [in, out/group, *kernel], bias [out].

    Any `pads` are legal: the result is positions `[begin, begin + extent)` of the full sum, zero
    beyond its ends, so a tile of the result is the same operator with other pads.
    """
    x, weight, bias = _three(operands)
    window = Window.of(operator, weight.shape[2:])
    group = operator.integer("group")
    batch, channels, *spatial = x.shape
    share, out = channels // group, weight.shape[1]
    extents = window.spread_extents(tuple(spatial), operator.integers("output_padding"))
    full = tuple(
        (extent - 1) * stride + span if extent else 0
        for extent, stride, span in zip(spatial, window.strides, window.spans, strict=True)
    )
    matrix = weight.reshape(group, share, -1).transpose(0, 2, 1)
    columns = np.matmul(matrix, x.reshape(batch, group, share, -1))
    spread = columns.reshape(batch, group * out, *window.kernel, *spatial)
    total = np.zeros((batch, group * out, *full), x.dtype)
    lead = (slice(None), slice(None))
    if x.size:
        for tap in np.ndindex(*window.kernel):
            total[(*lead, *tap_slices(window, tap, tuple(spatial)))] += spread[(*lead, *tap)]
    begins = [-begin for begin in window.begins]
    ends = [
        extent - size + begin
        for extent, size, begin in zip(extents, full, window.begins, strict=True)
    ]
    return (add_bias(_shift(total, begins, ends, extents), bias, axis=1),)


def _shift(total: Values, begins: list[int], ends: list[int], extents: Shape) -> Values:
    if all(
        -begin < size and -end < size
        for begin, end, size in zip(begins, ends, total.shape[2:], strict=True)
    ):
        return pad_or_crop(total, begins, ends, 0)
    return np.zeros((*total.shape[:2], *extents), total.dtype)


def matmul(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """numpy's matmul of a and b, plus a bias that broadcasts to the result."""
    a, b, bias = _three(operands)
    result = multiply(a, b)
    if bias is not None:
        result = result + bias
    return (result,)


def multiply(a: Values, b: Values) -> Values:
    """The matrix product; a stack of left operands against one matrix runs as one product."""
    if b.ndim == 2 and a.ndim > 2:
        flat = np.matmul(a.reshape(-1, a.shape[-1]), b)
        return np.asarray(flat.reshape(*a.shape[:-1], b.shape[1]))
    return np.asarray(np.matmul(a, b))


def add_bias(result: Values, bias: Values | None, axis: int) -> Values:
    """Add a vector along one axis, in place where the result is its own array."""
    if bias is None:
        return result
    shape = [1] * result.ndim
    shape[axis] = bias.size
    if result.flags.writeable and result.dtype == np.result_type(result, bias):
        result += bias.reshape(shape)
        return result
    return np.asarray(result + bias.reshape(shape))


def _three(operands: Sequence[Values | None]) -> tuple[Values, Values, Values | None]:
    first, second = operands[0], operands[1]
    assert first is not None
    assert second is not None
    return first, second, operands[2] if len(operands) > 2 else None
