"""What DMA moves by itself: operands, seen in the result's layout, to where they lie in the result.
Reversed axes of a slice are taken row by row, since DMA only moves forward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from stages.compiler.emit.program import Access
from stages.compiler.emit.regions import box_region, whole_region
from stages.compiler.memory.lifetimes import concat_slices
from stages.plan.instructions import Region
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import ROW_MAJOR, Layout, TensorType, full_box

Move = tuple[Access, Access]
"""From where to where."""


def moves(
    operator: Operator,
    operands: Sequence[Access],
    result: Access,
    types: Mapping[str, TensorType],
) -> list[Move]:
    """The copies that make the result of a concatenation, a slice, an expansion or a plain copy."""
    layout, rank = result.region.layout, len(result.region.shape)
    sources = [_in_layout(access, layout, rank) for access in operands]
    if operator.kind is Kind.CONCAT:
        pieces = zip(concat_slices(operator, types), sources, strict=True)
        return [
            (target, part)
            for piece, source in pieces
            for part, target in _slice_moves(piece, result, source)
        ]
    (source,) = sources
    if operator.kind is Kind.SLICE:
        return _slice_moves(operator, source, result)
    if operator.kind is Kind.EXPAND:
        return [(Access(source.place, _expanded(source.region, result.region)), result)]
    return [(_flat(source), _flat(result))]


def _in_layout(access: Access, layout: Layout, rank: int) -> Access:
    """A whole value seen in the layout of the result that it goes into: `AssignLayouts` leaves a
    value as it is where both layouts give it the same bytes."""
    region = access.region
    seen = layout if len(region.shape) == rank else ROW_MAJOR
    if region.layout == seen:
        return access
    tensor_type = TensorType(region.dtype, region.shape)
    return Access(access.place, whole_region(region.memory, region.address, tensor_type, seen))


def _slice_moves(operator: Operator, source: Access, result: Access) -> list[Move]:
    """The copies that take a box out of a value: one, or one for each place of the axes that run
    backwards."""
    shape = result.region.shape
    starts, steps = operator.integers("starts"), operator.integers("steps")
    backwards = [axis for axis, step in enumerate(steps) if step < 0]
    spans = list(zip(starts, operator.integers("stops"), strict=True))
    strides = tuple(max(step, 1) for step in steps)
    found = []
    for places in product(*(range(shape[axis]) for axis in backwards)):
        target = list(full_box(shape))
        for axis, place in zip(backwards, places, strict=True):
            start = starts[axis] + place * steps[axis]
            spans[axis], target[axis] = (start, start + 1), (place, place + 1)
        part = box_region(source.region, tuple(spans), strides)
        whole = box_region(result.region, tuple(target))
        assert part.shape == whole.shape
        found.append((Access(source.place, part), Access(result.place, whole)))
    return found


def _expanded(source: Region, target: Region) -> Region:
    """The source seen with the target's shape: broadcast axes have stride 0."""
    missing = len(target.shape) - len(source.shape)
    strides = [0] * missing
    for extent, stride, full in zip(
        source.shape, source.strides, target.shape[missing:], strict=True
    ):
        strides.append(0 if extent == 1 and full != 1 else stride)
    return replace(source, shape=target.shape, strides=tuple(strides))


def _flat(access: Access) -> Access:
    """All elements in a row."""
    region = access.region
    flat = replace(region, shape=(prod(region.shape),), strides=(region.dtype.size_bytes,))
    return Access(access.place, flat)
