"""What DMA moves: operands seen in the result's layout, and slices, whose reversed axes are taken
row by row, since DMA only moves forward."""

from __future__ import annotations

from itertools import product

from stages.compiler.emit.program import Access
from stages.compiler.emit.regions import box_region, whole_region
from stages.recipe.graph import Operator
from stages.tensors import ROW_MAJOR, Layout, TensorType, full_box


def in_layout(access: Access, layout: Layout, rank: int) -> Access:
    """A whole value seen in the layout of the result that it goes into: `AssignLayouts` leaves a
    value as it is where both layouts give it the same bytes."""
    region = access.region
    seen = layout if len(region.shape) == rank else ROW_MAJOR
    if region.layout == seen:
        return access
    tensor_type = TensorType(region.dtype, region.shape)
    return Access(access.place, whole_region(region.memory, region.address, tensor_type, seen))


def slice_moves(operator: Operator, source: Access, result: Access) -> list[tuple[Access, Access]]:
    """The copies that take a box out of a value: one, or one for each place of the axes that run
    backwards."""
    shape = result.region.shape
    starts, steps = operator.integers("starts"), operator.integers("steps")
    backwards = [axis for axis, step in enumerate(steps) if step < 0]
    spans = list(zip(starts, operator.integers("stops"), strict=True))
    strides = tuple(max(step, 1) for step in steps)
    moves = []
    for places in product(*(range(shape[axis]) for axis in backwards)):
        target = list(full_box(shape))
        for axis, place in zip(backwards, places, strict=True):
            start = starts[axis] + place * steps[axis]
            spans[axis], target[axis] = (start, start + 1), (place, place + 1)
        part = Access(source.place, box_region(source.region, tuple(spans), strides))
        moves.append((part, Access(result.place, box_region(result.region, tuple(target)))))
    return moves
