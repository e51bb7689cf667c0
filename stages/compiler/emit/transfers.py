"""DMA copies within the limits of the device: merged axes, split where too large."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stages.compiler.emit.regions import physical_region
from stages.hardware.spec import Dma
from stages.plan.instructions import Region
from stages.tensors import ROW_MAJOR, DType


@dataclass(frozen=True, slots=True)
class _Axis:
    extent: int
    source: int
    target: int


def copies(source: Region, target: Region, dma: Dma) -> list[tuple[Region, Region]]:
    """The transfers that copy one region to another of the same physical extents."""
    source, target = physical_region(source), physical_region(target)
    assert source.shape == target.shape
    assert source.dtype == target.dtype
    if 0 in source.shape:
        return []
    axes = _merged(source, target)
    return [
        (_part(source, part, offset, 0), _part(target, part, offset, 1))
        for part, offset in _split(axes, (0, 0), source.dtype.size_bytes, dma)
    ]


def _merged(source: Region, target: Region) -> list[_Axis]:
    """The axes of a copy, without those of extent 1, neighbours joined where both sides allow."""
    axes: list[_Axis] = []
    for extent, read, write in zip(source.shape, source.strides, target.strides, strict=True):
        if extent == 1:
            continue
        outer = axes[-1] if axes else None
        if outer and outer.source == extent * read and outer.target == extent * write:
            axes[-1] = _Axis(outer.extent * extent, read, write)
        else:
            axes.append(_Axis(extent, read, write))
    return axes


def _split(
    axes: list[_Axis], offset: tuple[int, int], item_bytes: int, dma: Dma
) -> Iterator[tuple[list[_Axis], tuple[int, int]]]:
    """Parts with few enough axes and bytes, cut along the outermost axis."""
    size = item_bytes
    for axis in axes:
        size *= axis.extent
    fits = _loops(axes, item_bytes) <= dma.max_dimensions
    if size <= dma.max_transfer_bytes and fits:
        yield axes, offset
        return
    outer, *inner = axes
    inner_bytes = size // outer.extent
    chunk = dma.max_transfer_bytes // inner_bytes if fits else 1
    chunk = max(1, min(chunk, outer.extent))
    for start in range(0, outer.extent, chunk):
        extent = min(chunk, outer.extent - start)
        moved = (offset[0] + start * outer.source, offset[1] + start * outer.target)
        head = [_Axis(extent, outer.source, outer.target)] if extent > 1 else []
        yield from _split([*head, *inner], moved, item_bytes, dma)


def _loops(axes: list[_Axis], item_bytes: int) -> int:
    """Nested loops of a copy; a run of neighbouring elements is one."""
    if not axes:
        return 1
    unbroken = axes[-1].source == axes[-1].target == item_bytes
    return len(axes) + (0 if unbroken else 1)


def _part(region: Region, axes: list[_Axis], offset: tuple[int, int], side: int) -> Region:
    strides = [axis.target if side else axis.source for axis in axes]
    shape = tuple(axis.extent for axis in axes) or (1,)
    dtype: DType = region.dtype
    address = region.address + offset[side]
    return Region(
        region.memory, address, dtype, shape, ROW_MAJOR, tuple(strides) or (dtype.size_bytes,)
    )
