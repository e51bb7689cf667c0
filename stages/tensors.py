"""Tensor types: element types, static shapes, boxes. The ground that every room stands on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import prod

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Shape = tuple[int, ...]
Box = tuple[tuple[int, int], ...]
"""A half-open range [start, stop) for each axis."""


class DType(StrEnum):
    """Element types, named as they are printed in recipes and plans."""

    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"
    I8 = "i8"
    U8 = "u8"
    I16 = "i16"
    U16 = "u16"
    I32 = "i32"
    U32 = "u32"
    I64 = "i64"
    U64 = "u64"
    BOOL = "bool"

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The numpy type that holds one element."""
        return _NUMPY[self]

    @property
    def size_bytes(self) -> int:
        """Bytes of one element."""
        return _NUMPY[self].itemsize

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self in (DType.F16, DType.BF16, DType.F32, DType.F64)

    @classmethod
    def of(cls, dtype: np.dtype[np.generic]) -> DType:
        """The element type of a numpy array.

        Raises:
            KeyError: the numpy type has no counterpart (strings, complex numbers, 4-bit types).
        """
        return _BY_NUMPY[np.dtype(dtype)]


_NUMPY: dict[DType, np.dtype[np.generic]] = {
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(ml_dtypes.bfloat16),
    DType.F32: np.dtype(np.float32),
    DType.F64: np.dtype(np.float64),
    DType.I8: np.dtype(np.int8),
    DType.U8: np.dtype(np.uint8),
    DType.I16: np.dtype(np.int16),
    DType.U16: np.dtype(np.uint16),
    DType.I32: np.dtype(np.int32),
    DType.U32: np.dtype(np.uint32),
    DType.I64: np.dtype(np.int64),
    DType.U64: np.dtype(np.uint64),
    DType.BOOL: np.dtype(np.bool_),
}
_BY_NUMPY = {numpy: dtype for dtype, numpy in _NUMPY.items()}


@dataclass(frozen=True, slots=True)
class TensorType:
    """An element type and a static shape; prints as `f16[1,64,56,56]`, a scalar as `f32[]`."""

    dtype: DType
    shape: Shape

    @property
    def element_count(self) -> int:
        """Elements; 1 for a scalar, 0 where an axis is empty."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes when stored densely."""
        return self.element_count * self.dtype.size_bytes

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


def full_box(shape: Shape) -> Box:
    """The box that covers a whole tensor."""
    return tuple([(0, extent) for extent in shape])


def box_shape(box: Box) -> Shape:
    """The extent of a box along each axis."""
    return tuple([stop - start for start, stop in box])


def box_slices(box: Box) -> tuple[slice, ...]:
    """The box as numpy slices."""
    return tuple(slice(start, stop) for start, stop in box)


def row_slices(array: Array, elements: int) -> Iterator[slice]:
    """An array of one axis or more in parts along the first, each of so many elements or less,
    or of one row where that has more."""
    rows = max(1, elements * len(array) // max(1, array.size))
    return (slice(start, start + rows) for start in range(0, len(array), rows))


def broadcast_box(box: Box, shape: Shape) -> Box:
    """The part of an operand of `shape` that a box of the broadcast result reads (numpy's rule)."""
    tail = box[len(box) - len(shape) :]
    return tuple(
        [(0, 1) if extent == 1 else span for span, extent in zip(tail, shape, strict=True)]
    )


class LayoutKind(StrEnum):
    """How the axes of a tensor lie in memory.

    `row_major` keeps the logical order; `nhwc` moves the channel axis (1) last; `nc1hwc2` cuts the
    channels into blocks of `quantum` and moves each block last, the tail padded with zeros.
    """

    ROW_MAJOR = "row_major"
    NHWC = "nhwc"
    NC1HWC2 = "nc1hwc2"


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout; prints as `row_major`, `nhwc` or `nc1hwc2/16`. All but the first need rank >= 3."""

    kind: LayoutKind
    quantum: int = 1

    def physical_shape(self, shape: Shape) -> Shape:
        """Extents in memory order for a tensor (or box) of this logical shape."""
        if self.kind is LayoutKind.ROW_MAJOR:
            return shape
        batch, channels, *spatial = shape
        if self.kind is LayoutKind.NHWC:
            return (batch, *spatial, channels)
        return (batch, -(-channels // self.quantum), *spatial, self.quantum)

    def to_physical(self, array: Array) -> Array:
        """Rearrange a logical array into memory order; padded channels are zero."""
        if self.kind is LayoutKind.ROW_MAJOR:
            return array
        if self.kind is LayoutKind.NHWC:
            return np.moveaxis(array, 1, -1)
        batch, channels, *spatial = array.shape
        blocks = -(-channels // self.quantum)
        if missing := blocks * self.quantum - channels:
            array = np.pad(array, [(0, 0), (0, missing), *[(0, 0)] * len(spatial)])
        return np.moveaxis(array.reshape(batch, blocks, self.quantum, *spatial), 2, -1)

    def to_logical(self, array: Array, shape: Shape) -> Array:
        """The inverse of `to_physical` for a tensor of logical `shape`."""
        if self.kind is LayoutKind.ROW_MAJOR:
            return array
        if self.kind is LayoutKind.NHWC:
            return np.moveaxis(array, -1, 1)
        batch, channels, *spatial = shape
        merged = np.moveaxis(array, -1, 2).reshape(batch, -1, *spatial)
        return merged[:, :channels]

    def __str__(self) -> str:
        return f"{self.kind}/{self.quantum}" if self.kind is LayoutKind.NC1HWC2 else str(self.kind)


ROW_MAJOR = Layout(LayoutKind.ROW_MAJOR)


def dense_strides(physical_shape: Shape, item_bytes: int) -> tuple[int, ...]:
    """Byte strides of a dense array with these extents in memory order."""
    strides: list[int] = []
    step = item_bytes
    for extent in reversed(physical_shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))
