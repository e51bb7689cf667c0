"""Gathers. Constant indices that walk an activation in equal steps are a slice."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.movement import emit_slice, slice_attributes
from stages.recipe.onnx_import.translation import (
    NotRepresentable,
    Translation,
    Translator,
    axis_of,
)
from stages.tensors import TensorType

Indices = NDArray[np.int64]


def gather(t: Translation) -> None:
    """Gather."""
    table, indices = t.operand(0), t.operand(1)
    axis = axis_of(t.node.integer("axis", 0), t.type(table).rank)
    data = t.data(indices)
    if data is None or t.data(table) is not None or data.ndim > 1:
        t.emit(Kind.GATHER, (table, indices), {"axis": axis})
        return
    walk = _walk(np.asarray(data, np.int64).reshape(-1), t.shape(table)[axis])
    if walk is None:
        t.emit(Kind.GATHER, (table, indices), {"axis": axis})
        return
    bounds = [(0, size, 1) for size in t.shape(table)]
    bounds[axis] = walk
    if data.ndim == 1:
        emit_slice(t, table, bounds)
        return
    kept = tuple(1 if i == axis else size for i, size in enumerate(t.shape(table)))
    picked = table
    if kept != t.shape(table):
        row = TensorType(t.result.dtype, kept)
        picked = t.step(Kind.SLICE, (table,), row, slice_attributes(bounds))
    t.emit(Kind.RESHAPE, (picked,), {"shape": t.result.shape})


def _walk(places: Indices, extent: int) -> tuple[int, int, int] | None:
    """Start, stop and step of places that go up in equal steps; None where they don't."""
    if not places.size:
        return None
    places = np.where(places < 0, places + extent, places)
    start, last = int(places[0]), int(places[-1])
    step = int(places[1]) - start if places.size > 1 else 1
    if step <= 0 or not np.array_equal(places, start + step * np.arange(places.size)):
        return None
    return start, last + 1, step


def gather_nd(t: Translation) -> None:
    """GatherND with constant indices: a gather of rows, the indexed axes made one."""
    table, indices = t.operand(0), _constant_indices(t)
    if t.node.integer("batch_dims", 0):
        raise NotRepresentable("it gathers batch by batch")
    shape = t.shape(table)
    depth = indices.shape[-1]
    extents = np.array(shape[:depth], np.int64)
    rows = np.where(indices < 0, indices + extents, indices)
    flat = _flattened(list(np.moveaxis(rows, -1, 0)), shape[:depth])
    _gather_flat(t, table, flat, (prod(shape[:depth]), *shape[depth:]))


def gather_elements(t: Translation) -> None:
    """GatherElements with constant indices: a gather from the flattened table."""
    table, indices = t.operand(0), _constant_indices(t)
    shape = t.shape(table)
    axis = axis_of(t.node.integer("axis", 0), len(shape))
    along = np.where(indices < 0, indices + shape[axis], indices)
    grid = np.indices(indices.shape)
    places = [along if place == axis else grid[place] for place in range(len(shape))]
    _gather_flat(t, table, _flattened(places, shape), (prod(shape),))


def _flattened(places: list[Indices], shape: tuple[int, ...]) -> Indices:
    """Row-major places in a tensor, given those along each axis."""
    try:
        return np.ravel_multi_index(tuple(places), shape).reshape(-1)
    except ValueError:
        raise NotRepresentable("its indices lie outside the table") from None


def _constant_indices(t: Translation) -> Indices:
    data = t.data(t.operand(1))
    if data is None:
        raise NotRepresentable("its indices are computed")
    if 0 in data.shape or 0 in t.shape(t.operand(0)):
        raise NotRepresentable("it gathers nothing")
    return np.asarray(data, np.int64)


def _gather_flat(t: Translation, table: str, flat: Indices, shape: tuple[int, ...]) -> None:
    """Rows of the table in another shape, in the shape of the result."""
    rows = t.reshaped(table, shape)
    gathered = TensorType(t.result.dtype, (flat.size, *shape[1:]))
    if np.array_equal(flat, np.arange(shape[0])):
        t.alias(rows)
        return
    walk = _walk(flat, shape[0])
    if walk is not None:
        bounds = [walk, *((0, size, 1) for size in shape[1:])]
        picked = t.step(Kind.SLICE, (rows,), gathered, slice_attributes(bounds))
    else:
        indices = t.constant("rows", flat.astype(np.int64))
        picked = t.step(Kind.GATHER, (rows, indices), gathered, {"axis": 0})
    t.alias(picked)


TABLE: dict[str, Translator] = {
    "Gather": gather,
    "GatherND": gather_nd,
    "GatherElements": gather_elements,
}
