"""Pooling, one spatial axis after the other: a k x k window costs 2k taps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stages.recipe.graph import Operator
from stages.recipe.semantics.windows import Values, pad_or_crop
from stages.recipe.window import Window
from stages.tensors import Shape, TensorType


def max_pool(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """ONNX MaxPool; padding never wins."""
    (x,) = operands
    assert x is not None
    window = Window.of(operator, operator.integers("kernel"))
    least = -np.inf if x.dtype.kind == "f" else int(np.iinfo(x.dtype).min)
    padded = pad_or_crop(x, window.begins, window.ends, least)
    extents = window.result_extents(x.shape[2:])
    return (_sweep(padded, window, extents, np.maximum),)


def average_pool(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """ONNX AveragePool.

    With `count_include_pad` 1 padding counts as zeros, but the last `overhang` positions of the end
    pads (what ceil_mode adds beyond the padded operand) never count.
    """
    (x,) = operands
    assert x is not None
    window = Window.of(operator, operator.integers("kernel"))
    padded = pad_or_crop(x, window.begins, window.ends, 0)
    extents = window.result_extents(x.shape[2:])
    total = _sweep(padded, window, extents, np.add)
    if total is x:
        total = x.copy()
    for axis, counts in enumerate(_counts(operator, window, x.shape[2:], extents)):
        total = total / counts.astype(x.dtype).reshape(-1, *(1,) * (len(extents) - axis - 1))
    return (total,)


def _counts(operator: Operator, window: Window, operand: Shape, extents: Shape) -> list[Values]:
    """How many positions count under each window, along each axis."""
    include = bool(operator.integer("count_include_pad"))
    overhang: Shape = (0,) * len(extents)
    if "overhang" in operator.attributes:
        overhang = operator.integers("overhang")
    counts = []
    for axis, extent in enumerate(extents):
        begin, end = window.begins[axis], window.ends[axis]
        low = -begin if include else 0
        high = operand[axis] + (end - overhang[axis] if include else 0)
        starts = np.arange(extent)[:, None] * window.strides[axis] - begin
        places = starts + np.arange(window.kernel[axis]) * window.dilations[axis]
        counts.append(((places >= low) & (places < high)).sum(axis=1))
    return counts


def _sweep(padded: Values, window: Window, extents: Shape, combine: np.ufunc) -> Values:
    for axis, extent in enumerate(extents, start=2):
        step, dilation = window.strides[axis - 2], window.dilations[axis - 2]
        lead = (slice(None),) * axis
        total: Values | None = None
        for tap in range(window.kernel[axis - 2]):
            start = tap * dilation
            view = padded[(*lead, slice(start, start + (extent - 1) * step + 1, step))]
            if total is None:
                total = view.copy()
            else:
                combine(total, view, out=total)
        assert total is not None
        padded = total
    return padded
