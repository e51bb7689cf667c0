"""The extents of every value of a group for many tiles at once.

Along each of its axes, what a tile needs of a value follows from one axis of the result (or from
the span of the contraction), so a few boxes tell those of all combinations. Where that doesn't
hold, each combination is followed by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.compiler.tiling.streams import REDUCTION
from stages.compiler.tiling.workload import Boxes, Workload
from stages.tensors import Box, Layout, LayoutKind, Shape, box_shape

Columns = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ExtentTable:
    """Of n tiles: `extents` of the result (int64[n, rank]), `reduction` (int64[n], 0 where there is
    none), and of each value of the group (int64[n, its rank]), in the middle of the result."""

    extents: Columns
    reduction: Columns
    values: Mapping[str, Columns]

    def rows(self, kept: Columns | NDArray[np.bool_]) -> ExtentTable:
        """Some of the rows."""
        values = {value: columns[kept] for value, columns in self.values.items()}
        return ExtentTable(self.extents[kept], self.reduction[kept], values)

    def counts(self, work: Workload) -> Columns:
        """Into how many parts each axis of the result is cut: int64[n, rank]."""
        shape = np.array(work.result_type.shape, dtype=np.int64)
        found: Columns = -(-shape // np.maximum(self.extents, 1))
        return np.maximum(found, 1)

    def chunks(self, work: Workload) -> Columns:
        """Into how many parts the contraction is cut."""
        found: Columns = -(-work.reduction_extent // np.maximum(self.reduction, 1))
        return np.where(self.reduction > 0, np.maximum(found, 1), 1)

    def steps(self, work: Workload) -> Columns:
        """How many steps each tile makes."""
        found: Columns = self.counts(work).prod(axis=1, dtype=np.int64) * self.chunks(work)
        return found


def extent_table(work: Workload, tiles: Sequence[tuple[Shape, int]]) -> ExtentTable:
    """The table of tiles given as extents of the result and a span of the contraction."""
    extents = np.array([item for item, _ in tiles], dtype=np.int64).reshape(len(tiles), -1)
    reduction = np.array([item for _, item in tiles], dtype=np.int64)
    # Put together, a single tile would be followed all the same.
    combined = _combined(work, extents, reduction) if len(tiles) > 1 else None
    if combined is not None and all(
        _row(combined, row) == _shapes(work, *tiles[row]) for row in _samples(len(tiles))
    ):
        return ExtentTable(extents, reduction, combined)
    rows = [_shapes(work, *tile) for tile in tiles]
    values = {
        value: np.array([row[value] for row in rows], dtype=np.int64).reshape(len(rows), -1)
        for value in rows[0]
    }
    return ExtentTable(extents, reduction, values)


def interior(extents: Shape, shape: Shape) -> Box:
    """The box of a tile away from the edges, where halos are whole."""
    box = []
    for extent, full in zip(extents, shape, strict=True):
        start = full // extent // 2 * extent if extent else 0
        start = min(start, max(0, full - extent))
        box.append((start, min(start + extent, full)))
    return tuple(box)


def dense_bytes(columns: Columns, layout: Layout, item_bytes: int) -> Columns:
    """Bytes of boxes that lie densely in a layout, `Layout.physical_shape`'s padding included."""
    if layout.kind is LayoutKind.NC1HWC2:
        columns = columns.copy()
        columns[:, 1] = -(-columns[:, 1] // layout.quantum) * layout.quantum
    sizes: Columns = columns.prod(axis=1, dtype=np.int64) * item_bytes
    return sizes


def _combined(work: Workload, extents: Columns, reduction: Columns) -> dict[str, Columns] | None:
    """The table put together axis by axis; None where an extent follows from several axes."""
    shape = work.result_type.shape
    uncut = _boxes(work, shape, 0)
    whole = {value: box_shape(box) for value, box in uncut.items()}
    found = {
        value: np.tile(np.array(part, dtype=np.int64), (len(extents), 1))
        for value, part in whole.items()
    }
    owner: dict[tuple[str, int], int] = {}
    axes = [(axis, extents[:, axis], full) for axis, full in enumerate(shape)]
    if work.reduction_extent:
        axes.append((REDUCTION, reduction, work.reduction_extent))
    for axis, column, full in axes:
        for extent in sorted(set(column.tolist())):
            if extent == full:
                continue
            if axis == REDUCTION:
                part = _boxes(work, shape, extent)
            else:
                part = _boxes(work, (*shape[:axis], extent, *shape[axis + 1 :]), 0)
            rows = column == extent
            for value, box in part.items():
                if box == uncut[value]:
                    continue
                for place, (start, stop) in enumerate(box):
                    length = stop - start
                    if length == whole[value][place]:
                        continue
                    if owner.setdefault((value, place), axis) != axis:
                        return None
                    found[value][rows, place] = length
    return found


def _boxes(work: Workload, extents: Shape, reduction: int) -> Boxes:
    span = (0, reduction) if 0 < reduction < work.reduction_extent else None
    return work.boxes(interior(extents, work.result_type.shape), span)


def _shapes(work: Workload, extents: Shape, reduction: int) -> dict[str, Shape]:
    return {value: box_shape(box) for value, box in _boxes(work, extents, reduction).items()}


def _row(values: Mapping[str, Columns], row: int) -> dict[str, Shape]:
    return {value: tuple(columns[row].tolist()) for value, columns in values.items()}


def _samples(count: int) -> list[int]:
    """A few rows, spread evenly."""
    return sorted({0, count - 1, count // 3, count // 2, 2 * count // 3, max(count - 2, 0)})
