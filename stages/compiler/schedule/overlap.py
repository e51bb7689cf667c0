"""Whether two accesses to one place may share a byte."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from stages.plan.instructions import Region


@dataclass(frozen=True, slots=True)
class Footprint:
    """The bytes that an access touches: `[start, stop)`, and within them a box.

    `spans` are the box's ranges along axes of the strides `strides`, widest first, where the
    place holds a dense tensor of these strides; None where that can't be told.
    """

    start: int
    stop: int
    strides: tuple[int, ...]
    spans: tuple[tuple[int, int], ...] | None


def footprint(region: Region, place_address: int) -> Footprint:
    """The footprint of a region in a place that begins at an address."""
    start = region.address
    axes, strides, reach = _axes(region.strides, region.physical_shape)
    stop = start + region.dtype.size_bytes + reach
    rest = start - place_address
    spans = []
    for stride, extent in axes:
        if stride <= 0:
            return Footprint(start, stop, (), None)
        first, rest = divmod(rest, stride)
        spans.append((first, first + extent))
    if rest:
        return Footprint(start, stop, (), None)
    return Footprint(start, stop, strides, tuple(spans))


@lru_cache(maxsize=1 << 14)
def _axes(
    strides: tuple[int, ...], extents: tuple[int, ...]
) -> tuple[list[tuple[int, int]], tuple[int, ...], int]:
    """Strides with extents, widest first, the strides alone, and how far the last element begins
    behind the first: tiles are alike, and are asked for by the ten thousand."""
    axes = sorted(zip(strides, extents, strict=True), reverse=True)
    reach = sum((extent - 1) * stride for stride, extent in axes)
    return axes, tuple([stride for stride, _ in axes]), reach


def may_share(one: Footprint, other: Footprint) -> bool:
    """False only where the two share no byte."""
    if one.start >= other.stop or other.start >= one.stop:
        return False
    if one.spans is None or other.spans is None or one.strides != other.strides:
        return True
    for (start, stop), (low, high) in zip(one.spans, other.spans, strict=True):
        # A loop: this is asked tens of thousands of times, and a generator costs as much again.
        if low >= stop or start >= high:
            return False
    return True
