"""Convolutions and matrix products as one BLAS product for each block of columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from stages.recipe.graph import Operator
from stages.recipe.semantics.windows import (
    Values,
    pad_or_crop,
    tap_slices,
    window_view,
)
from stages.recipe.window import Window
from stages.tensors import Shape, TensorType

_COLUMN_BYTES = 1 << 20
"""Columns are made in blocks of about this size: larger ones leave the cache between the copy and
the product."""


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
        mixed = np.matmul(weight.reshape(out, -1), columns)
        return np.asarray(mixed.reshape(batch, out, *extents))
    padded = pad_or_crop(x, window.begins, window.ends, 0)
    return _by_columns(padded, weight, window, extents, group)


def _by_columns(
    padded: Values, weight: Values, window: Window, extents: Shape, group: int
) -> Values:
    """Copies the elements under each window into columns, block by block, and multiplies them.

    A block is some groups of channels, or some lines of one group. Depthwise convolutions run so
    too: a batch of vector-matrix products is three times as fast as sums over kernel positions.
    """
    batch, out = padded.shape[0], weight.shape[0]
    share, depth = weight.shape[1], weight[0].size
    first, rest = extents[0], prod(extents[1:])
    view = window_view(padded, window, extents)
    matrix = np.ascontiguousarray(weight).reshape(group, out // group, depth)
    result = np.empty((batch, group, out // group, first * rest), padded.dtype)
    line_bytes = batch * depth * rest * padded.itemsize
    groups = max(1, min(group, _COLUMN_BYTES // (line_bytes * first)))
    lines = max(1, min(first, _COLUMN_BYTES // line_bytes))
    axis = 2 + len(extents)
    for start, low in product(range(0, group, groups), range(0, first, lines)):
        some = slice(start, start + groups)
        rows = slice(low, min(low + lines, first))
        box: list[slice] = [slice(None)] * (axis + 1)
        box[1] = slice(start * share, (start + groups) * share)
        box[axis] = rows
        block = view[tuple(box)]
        count = block.shape[1] // share
        columns = block.reshape(batch, count, depth, (rows.stop - low) * rest)
        target = result[:, some, :, low * rest : rows.stop * rest]
        np.matmul(matrix[some], columns, out=target)
    return result.reshape(batch, out, *extents)


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
