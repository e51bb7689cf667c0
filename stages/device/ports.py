"""How a compute instruction gets its operands from memory and puts its results back.

Both are made once, when a package is loaded, so that a run only moves numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.device.memory import Memories, blocked_view, is_blocked
from stages.errors import DeviceError
from stages.plan.instructions import Region
from stages.tensors import Array, DType

Loader = Callable[[], Array]
Storer = Callable[[NDArray[Any]], int]
"""Stores a logical array; returns how many finite values became infinite in the region's type."""

_WIDE = {DType.F16: np.dtype(np.float32), DType.BF16: np.dtype(np.float32)}
_FIRST_OVERFLOW = {
    DType.F16: 65_520.0,  # halfway from the largest number, 65504, to the next that would follow
    DType.BF16: 3.3961775292304954e38,  # likewise from 2**127 * (2 - 2**-7)
    DType.F32: 3.4028235677973366e38,  # likewise from 2**127 * (2 - 2**-23)
}


def loader(memories: Memories, region: Region) -> Loader:
    """Reads a region as a logical array; half-width floats come as float32, exactly."""
    view = memories.view(region)
    wide = _WIDE.get(region.dtype, region.dtype.numpy)
    if is_blocked(region):
        blocks = blocked_view(view)
        batch, _, _, *spatial = blocks.shape
        merged_shape = (batch, blocks.shape[1] * blocks.shape[2], *spatial)
        channels = region.shape[1]

        def load_blocked() -> Array:
            merged = np.empty(blocks.shape, wide)
            merged[...] = blocks
            return merged.reshape(merged_shape)[:, :channels]

        return load_blocked
    logical = region.layout.to_logical(view, region.shape)
    if wide != region.dtype.numpy:
        return lambda: logical.astype(wide)
    return lambda: logical


def storer(memories: Memories, region: Region) -> Storer:
    """Rounds a logical array to the region's type and writes it; padded channels become zero."""
    view = memories.view(region)
    count = overflow_counter(region.dtype)
    target = (
        blocked_view(view) if is_blocked(region) else region.layout.to_logical(view, region.shape)
    )

    def store(value: NDArray[Any]) -> int:
        _check(value, region)
        overflows = count(value)
        target[...] = value
        return overflows

    def store_blocked(value: NDArray[Any]) -> int:
        _check(value, region)
        overflows = count(value)
        _, blocks, quantum, *spatial = target.shape
        if missing := blocks * quantum - region.shape[1]:
            value = np.pad(value, [(0, 0), (0, missing), *[(0, 0)] * len(spatial)])
        target[...] = value.reshape(target.shape)
        return overflows

    return store_blocked if is_blocked(region) else store


def _check(value: NDArray[Any], region: Region) -> None:
    if value.shape != region.shape:
        raise DeviceError(
            f"a kernel made {list(value.shape)} for a region of {list(region.shape)}",
            where=f"{region.memory}+0x{region.address:x}",
            hint="the plan is broken: `recipe validate` names the rule",
        )
    fits = (
        value.dtype.kind not in "iub"
        if region.dtype.is_float
        else (value.dtype == region.dtype.numpy)
    )
    if not fits:
        raise DeviceError(
            f"a kernel made {value.dtype} for a region of {region.dtype}",
            where=f"{region.memory}+0x{region.address:x}",
            hint="a cast or quantize is missing at the end of the kernel",
        )


def overflow_counter(dtype: DType) -> Callable[[NDArray[Any]], int]:
    """Counts the finite values that become infinite when rounded to `dtype`."""
    limit = _FIRST_OVERFLOW.get(dtype)
    width = dtype.size_bytes

    def none(_: NDArray[Any]) -> int:
        return 0

    def count(value: NDArray[Any]) -> int:
        if value.size == 0 or (value.dtype.itemsize <= width and value.dtype.kind == "f"):
            return 0
        assert limit is not None
        if value.max() < limit and value.min() > -limit:
            return 0
        over = np.abs(value) >= limit
        return int(np.count_nonzero(over & np.isfinite(value)))

    return none if limit is None else count
