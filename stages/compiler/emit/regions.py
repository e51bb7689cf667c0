"""Regions of memory for values, boxes of values, and tile slots."""

from __future__ import annotations

from stages.plan.instructions import Region
from stages.tensors import (
    ROW_MAJOR,
    Box,
    DType,
    Layout,
    LayoutKind,
    TensorType,
    box_shape,
    dense_strides,
)


def whole_region(memory: str, address: int, tensor_type: TensorType, layout: Layout) -> Region:
    """A tensor that lies densely at an address."""
    strides = dense_strides(layout.physical_shape(tensor_type.shape), tensor_type.dtype.size_bytes)
    return Region(memory, address, tensor_type.dtype, tensor_type.shape, layout, strides)


def box_region(whole: Region, box: Box, steps: tuple[int, ...] | None = None) -> Region:
    """A box of a tensor that lies in memory, every `steps`-th element along each axis.

    Channels of a blocked layout must start at a whole block, with step 1.
    """
    strides = whole.strides
    if steps is None:
        shape = box_shape(box)
    else:
        shape = tuple(
            [-(-(stop - start) // step) for (start, stop), step in zip(box, steps, strict=True)]
        )
        physical_steps = _physical_steps(steps, whole.layout)
        strides = tuple(
            [stride * step for stride, step in zip(strides, physical_steps, strict=True)]
        )
    address = whole.address
    starts = _physical([start for start, _ in box], whole.layout)
    for start, stride in zip(starts, whole.strides, strict=True):
        address += start * stride
    return Region(whole.memory, address, whole.dtype, shape, whole.layout, strides)


def slot_region(memory: str, address: int, dtype: DType, box: Box, layout: Layout) -> Region:
    """A box that lies densely in a slot."""
    return whole_region(memory, address, TensorType(dtype, box_shape(box)), layout)


def bytes_region(memory: str, address: int, size_bytes: int) -> Region:
    """A plain run of bytes."""
    return Region(memory, address, DType.U8, (size_bytes,), ROW_MAJOR, (1,))


def physical_region(region: Region) -> Region:
    """The same bytes with the axes as they lie in memory: what a DMA engine sees."""
    return Region(
        region.memory,
        region.address,
        region.dtype,
        region.physical_shape,
        ROW_MAJOR,
        region.strides,
    )


def _physical(starts: list[int], layout: Layout) -> list[int]:
    if layout.kind is LayoutKind.ROW_MAJOR:
        return starts
    batch, channel, *spatial = starts
    if layout.kind is LayoutKind.NHWC:
        return [batch, *spatial, channel]
    assert channel % layout.quantum == 0, "a box cuts a block of channels"
    return [batch, channel // layout.quantum, *spatial, 0]


def _physical_steps(steps: tuple[int, ...], layout: Layout) -> list[int]:
    if layout.kind is LayoutKind.ROW_MAJOR:
        return list(steps)
    batch, channel, *spatial = steps
    if layout.kind is LayoutKind.NHWC:
        return [batch, *spatial, channel]
    assert channel == 1, "a step within blocks of channels"
    return [batch, 1, *spatial, 1]
