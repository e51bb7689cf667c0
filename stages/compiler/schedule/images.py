"""Where the bytes of one place lie in another: boxes, strided, carried over from one to the other.

A transfer says which bytes of a slot are which bytes of the DDR; a grid over the DDR says where a
box of it would lie, densely, in the SRAM. With both a region of a slot becomes the region of the
dense box that holds the same elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from stages.plan.instructions import Region

Axis = tuple[int, int, int]
"""How many steps, the bytes of one step here, and the bytes of one step there."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """Offsets in bytes from one place to another: `axes` by their steps here, the widest first;
    a step of one axis is never less than all of the next ones together."""

    axes: tuple[Axis, ...]
    start: int = 0
    """The offset there of offset 0 here."""

    def of(self, offset: int, steps: Iterable[tuple[int, int]]) -> tuple[int, list[int]] | None:
        """The offset there of a box that begins at an offset here, and the bytes from one element
        to the next there along each of its axes, given as (elements, bytes); None where it isn't a
        box there."""
        left: list[int] = []
        there = self.start
        for extent, step, other in self.axes:
            at, offset = divmod(offset, step)
            if not 0 <= at < extent:
                return None
            there += at * other
            left.append(extent - 1 - at)
        if offset:
            return None
        strides = []
        for extent, step in steps:
            if extent == 1:
                strides.append(step)
                continue
            number = next((at for at, axis in enumerate(self.axes) if axis[1] <= step), -1)
            if number < 0:
                return None
            _, width, other = self.axes[number]
            times, rest = divmod(step, width)
            left[number] -= (extent - 1) * times
            if rest or left[number] < 0:
                return None
            strides.append(times * other)
        return there, strides


def carried(region: Region, place_address: int, maps: Sequence[Mapping]) -> Region | None:
    """A region of a place that begins at an address, as a region of another one that begins at 0,
    to which the maps lead one after the other; None where it isn't one."""
    extents = region.physical_shape
    offset, strides = region.address - place_address, list(region.strides)
    for mapping in maps:
        found = mapping.of(offset, zip(extents, strides, strict=True))
        if found is None:
            return None
        offset, strides = found
    # Axes of one element get the strides that they have where all lies densely.
    run = region.dtype.size_bytes
    for axis in reversed(range(len(extents))):
        if extents[axis] == 1:
            strides[axis] = run
        run = max(run, strides[axis] * extents[axis])
    return replace(region, address=offset, strides=tuple(strides))


def extents_of(region: Region) -> list[tuple[int, int]]:
    """The elements and the bytes of a step along each axis of more than one element of a transfer's
    region."""
    axes = zip(region.shape, region.strides, strict=True)
    return [(extent, step) for extent, step in axes if extent > 1]


def transfer_map(inner: Region, outer: Region, outer_address: int) -> Mapping | None:
    """Offsets in a slot, which begins where `inner` does, to offsets in the place in the DDR that
    begins at `outer_address`, as a transfer between the two regions tells."""
    axes = [
        axis for axis in zip(inner.shape, inner.strides, outer.strides, strict=True) if axis[0] > 1
    ]
    axes.sort(key=lambda axis: -axis[1])
    reach = inner.dtype.size_bytes
    for extent, step, _ in reversed(axes):
        if step < reach:
            return None
        reach = extent * step
    return Mapping(tuple(axes), outer.address - outer_address)


@dataclass(frozen=True, slots=True)
class Grid:
    """A box of a place in the DDR that covers some regions of it, on the grid of their strides:
    `size_bytes` are those that it takes where it lies densely."""

    mapping: Mapping
    start: int
    size_bytes: int


def covering(regions: Sequence[tuple[int, Sequence[tuple[int, int]]]], item: int) -> Grid | None:
    """The least box that covers boxes, which are offsets and (elements, bytes) by axis, of elements
    of `item` bytes; None where their strides are no grid."""
    widths = sorted({step for _, steps in regions for _, step in steps} | {item}, reverse=True)
    if any(wide % narrow for wide, narrow in pairwise(widths)):
        return None
    lows: list[int] | None = None
    highs: list[int] = []
    for offset, steps in regions:
        spans = _spans(offset, steps, widths)
        if spans is None:
            return None
        if lows is None:
            lows, highs = [low for low, _ in spans], [high for _, high in spans]
        else:
            lows = [min(low, span[0]) for low, span in zip(lows, spans, strict=True)]
            highs = [max(high, span[1]) for high, span in zip(highs, spans, strict=True)]
    assert lows is not None
    axes: list[Axis] = []
    size = item
    start = 0
    for low, high, width in reversed(list(zip(lows, highs, widths, strict=True))):
        start += low * width
        count = high - low
        if axes and axes[-1][0] * axes[-1][1] == width:
            extent, step, other = axes[-1]
            axes[-1] = (extent * count, step, other)
        elif count > 1:
            axes.append((count, width, size))
        size *= count
    axes.reverse()
    return Grid(Mapping(tuple(axes)), start, size)


def _spans(
    offset: int, steps: Sequence[tuple[int, int]], widths: Sequence[int]
) -> list[tuple[int, int]] | None:
    """The range of a box along each width of a grid."""
    begins = []
    for width in widths:
        at, offset = divmod(offset, width)
        begins.append(at)
    if offset:
        return None
    counts = [1] * len(widths)
    for extent, step in steps:
        number = widths.index(step)
        while number and extent * step > widths[number - 1]:
            times = widths[number - 1] // step
            if extent % times or counts[number] != 1 or begins[number]:
                return None
            counts[number] = times
            extent //= times
            number -= 1
            step = widths[number]
        if extent == 1:
            continue
        if counts[number] != 1:
            return None
        counts[number] = extent
    for number, (begin, count) in enumerate(zip(begins, counts, strict=True)):
        if number and (begin + count) * widths[number] > widths[number - 1]:
            return None
    return [(begin, begin + count) for begin, count in zip(begins, counts, strict=True)]
