"""Whether two accesses to one place may share a byte."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from stages.plan.instructions import Region
from stages.tensors import DType


@dataclass(frozen=True, slots=True)
class Footprint:
    """The bytes of a place that an access touches: `[start, stop)`, counted from where the place
    begins, and within them a box.

    `spans` are the box's ranges along axes of the strides `strides`, widest first, where the
    place holds a dense tensor of these strides; None where that can't be told.
    """

    start: int
    stop: int
    strides: tuple[int, ...]
    spans: tuple[tuple[int, int], ...] | None


def footprint(region: Region, place_address: int) -> Footprint:
    """The footprint of a region in a place that begins at an address."""
    offset = region.address - place_address
    return _footprint(offset, region.dtype, region.strides, region.physical_shape)


@lru_cache(maxsize=1 << 16)
def _footprint(
    start: int, dtype: DType, strides: tuple[int, ...], extents: tuple[int, ...]
) -> Footprint:
    """A footprint from its region's offset and form: tiles are alike, layer by layer, and are asked
    for by the hundred thousand."""
    axes = sorted(zip(strides, extents, strict=True), reverse=True)
    stop = start + dtype.size_bytes + sum((extent - 1) * stride for stride, extent in axes)
    rest = start
    spans = []
    for stride, extent in axes:
        if stride <= 0:
            return Footprint(start, stop, (), None)
        first, rest = divmod(rest, stride)
        spans.append((first, first + extent))
    if rest:
        return Footprint(start, stop, (), None)
    return Footprint(start, stop, tuple([stride for stride, _ in axes]), tuple(spans))


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
