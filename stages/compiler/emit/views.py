"""Views: values that are bytes of another value, so that nothing moves.

A slice that goes forward is a box of its source; a transpose walks it in another order; a reshape
splits or joins axes that lie one behind the other. Any may have gaps, as a column of a matrix has.
"""

from __future__ import annotations

from collections.abc import Sequence

from stages.compiler.emit.regions import box_region, whole_region
from stages.plan.instructions import Region
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import ROW_MAJOR, Layout, LayoutKind, Shape, TensorType, dense_strides


def view_region(
    operator: Operator, source: Region, tensor_type: TensorType, layout: Layout
) -> Region | None:
    """The region of a view's result within its source; None where the bytes don't lie so."""
    if operator.kind is Kind.SLICE:
        return _sliced(operator, source) if layout == source.layout else None
    if operator.kind is Kind.TRANSPOSE:
        return _transposed(operator, source) if layout == source.layout == ROW_MAJOR else None
    if _is_dense(source):
        return whole_region(source.memory, source.address, tensor_type, layout)
    if source.layout != layout:
        return None
    if source.shape == tensor_type.shape:
        return source
    if layout.kind is not LayoutKind.ROW_MAJOR:
        return None
    strides = _reshaped(source.shape, source.strides, tensor_type.shape)
    if strides is None:
        return None
    return Region(source.memory, source.address, source.dtype, tensor_type.shape, layout, strides)


def _is_dense(region: Region) -> bool:
    dense = dense_strides(region.physical_shape, region.dtype.size_bytes)
    return all(
        extent == 1 or stride == wanted
        for extent, stride, wanted in zip(region.physical_shape, region.strides, dense, strict=True)
    )


def _sliced(operator: Operator, source: Region) -> Region | None:
    starts, steps = operator.integers("starts"), operator.integers("steps")
    stops, quantum = operator.integers("stops"), source.layout.quantum
    if any(step < 1 for step in steps):
        return None
    if source.layout.kind is LayoutKind.NC1HWC2:
        whole = starts[1] % quantum == 0
        ends = stops[1] % quantum == 0 or stops[1] == source.shape[1]
        if not (whole and ends and steps[1] == 1):
            return None
    return box_region(source, tuple(zip(starts, stops, strict=True)), steps)


def _transposed(operator: Operator, source: Region) -> Region:
    permutation = operator.integers("permutation")
    shape = tuple(source.shape[axis] for axis in permutation)
    strides = tuple(source.strides[axis] for axis in permutation)
    return Region(source.memory, source.address, source.dtype, shape, source.layout, strides)


def _reshaped(shape: Shape, strides: Sequence[int], wanted: Shape) -> tuple[int, ...] | None:
    """Strides of the same bytes with other extents; None where axes that a new one joins don't
    lie one behind the other. Axes are walked from the last; numpy finds the same views."""
    if 0 in shape:
        return None
    axes = [(extent, step) for extent, step in zip(shape, strides, strict=True) if extent > 1]
    found: list[int] = []
    rest, step = axes.pop() if axes else (1, 0)
    for extent in reversed(wanted):
        need = extent
        if need > 1 and rest == 1:
            if not axes:
                return None
            rest, step = axes.pop()
        found.append(step)
        while rest % need:
            if not axes or axes[-1][1] != rest * step:
                return None
            joined, _ = axes.pop()
            rest *= joined
        rest //= need
        step *= need
    return tuple(reversed(found))
