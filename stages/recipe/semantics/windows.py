"""Strided views and padding that convolutions and pooling share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from stages.recipe.window import Window
from stages.tensors import Shape

Values = NDArray[Any]


def pad_or_crop(array: Values, begins: Sequence[int], ends: Sequence[int], value: float) -> Values:
    """Extend the last axes of an array by constants; negative amounts crop.

    Returns the array itself, not a copy, where nothing is added.
    """
    lead = array.ndim - len(begins)
    if any(amount < 0 for amount in (*begins, *ends)):
        crops = [slice(None)] * lead
        for extent, begin, end in zip(array.shape[lead:], begins, ends, strict=True):
            start = max(-begin, 0)
            crops.append(slice(start, max(extent + min(end, 0), start)))
        array = array[tuple(crops)]
    if not any(amount > 0 for amount in (*begins, *ends)):
        return array
    shape = list(array.shape)
    inner = [slice(None)] * lead
    for axis, (begin, end) in enumerate(zip(begins, ends, strict=True), start=lead):
        inner.append(slice(max(begin, 0), max(begin, 0) + shape[axis]))
        shape[axis] += max(begin, 0) + max(end, 0)
    result = np.full(shape, value, array.dtype) if value else np.zeros(shape, array.dtype)
    result[tuple(inner)] = array
    return result


def window_view(array: Values, window: Window, extents: Shape) -> Values:
    """A view [batch, channel, *kernel, *extents] of an already padded array."""
    batch, channel, *spatial = array.strides
    taps = [stride * dilation for stride, dilation in zip(spatial, window.dilations, strict=True)]
    steps = [stride * step for stride, step in zip(spatial, window.strides, strict=True)]
    return as_strided(
        array,
        (*array.shape[:2], *window.kernel, *extents),
        (batch, channel, *taps, *steps),
        writeable=False,
    )


def tap_slices(window: Window, tap: Shape, extents: Shape) -> tuple[slice, ...]:
    """The slices of a padded array that one kernel position touches."""
    return tuple(
        slice(place * dilation, place * dilation + (extent - 1) * stride + 1, stride)
        for place, dilation, extent, stride in zip(
            tap, window.dilations, extents, window.strides, strict=True
        )
    )
