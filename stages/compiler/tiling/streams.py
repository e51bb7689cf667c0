"""How a tiled group moves its operands: what is streamed, how often, and in how many slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

from stages.compiler.tiling.footprint import Span
from stages.compiler.tiling.workload import Boxes, Workload
from stages.recipe.decisions import Tile
from stages.tensors import Box, Layout, Shape, TensorType, box_shape, full_box

REDUCTION = -1
"""Stands for the contracted axis among the axes of a result."""

_SMALL_SHARE = 4  # constants below a quarter of the largest one travel with it


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a tiled group: a box of the result and a span of the contraction."""

    box: Box
    reduction: Span | None
    is_first: bool
    is_last: bool


@dataclass(frozen=True, slots=True)
class Stream:
    """Operands that are loaded together into one slot, and the axes that change them."""

    values: tuple[str, ...]
    axes: frozenset[int]
    is_constant: bool


def steps(work: Workload, tile: Tile) -> Iterator[Step]:
    """Every step of a tiled group, in order: the result's axes as `tile.order` nests them, the
    contraction innermost."""
    shape = work.result_type.shape
    order = tile.order or tuple(range(len(shape)))
    ranges = [
        [
            (start, min(start + tile.extents[axis], shape[axis]))
            for start in range(0, shape[axis], tile.extents[axis])
        ]
        for axis in order
    ]
    spans = reduction_spans(work, tile)
    for chosen in product(*ranges):
        box: list[Span] = [(0, 0)] * len(shape)
        for axis, span in zip(order, chosen, strict=True):
            box[axis] = span
        for index, reduction in enumerate(spans):
            yield Step(tuple(box), reduction, index == 0, index == len(spans) - 1)


def reduction_spans(work: Workload, tile: Tile) -> list[Span | None]:
    """The spans of the contracted axis; one None where it isn't cut."""
    extent = work.reduction_extent
    if not extent or not tile.reduction or tile.reduction >= extent:
        return [None]
    return [
        (start, min(start + tile.reduction, extent)) for start in range(0, extent, tile.reduction)
    ]


def dependencies(work: Workload) -> Mapping[str, frozenset[int]]:
    """For each operand, the result axes (and REDUCTION) whose position changes its box."""
    shape = work.result_type.shape
    everything = work.boxes(full_box(shape))
    found: dict[str, set[int]] = {value: set() for value in work.operands}
    for axis, extent in enumerate(shape):
        step = work.granularity(axis)
        if step >= extent:
            continue
        box = tuple((0, step) if other == axis else (0, size) for other, size in enumerate(shape))
        _note_changes(found, everything, work.boxes(box), axis)
    if work.reduction_extent > 1:
        _note_changes(found, everything, work.boxes(full_box(shape), (0, 1)), REDUCTION)
    return {value: frozenset(axes) for value, axes in found.items()}


def _note_changes(found: dict[str, set[int]], before: Boxes, after: Boxes, axis: int) -> None:
    for value, axes in found.items():
        if before.get(value) != after.get(value):
            axes.add(axis)


def streams(
    work: Workload, depends: Mapping[str, frozenset[int]], resident: frozenset[str]
) -> list[Stream]:
    """The streams of a group. Small constants travel with the largest one: one transfer brings a
    convolution's weights, bias and scales."""
    moving = [
        Stream((value,), depends[value], False)
        for value in work.operands
        if value not in work.constants and value not in resident and value not in work.tables
    ]
    constants = [value for value in work.operands if value in work.constants - work.tables]
    if not constants:
        return moving
    largest = max(constants, key=lambda value: work.types[value].size_bytes)
    limit = work.types[largest].size_bytes // _SMALL_SHARE
    joined = [
        value for value in constants if value == largest or work.types[value].size_bytes <= limit
    ]
    axes = frozenset(axis for value in joined for axis in depends[value])
    alone = [Stream((value,), depends[value], True) for value in constants if value not in joined]
    return [Stream(tuple(joined), axes, True), *alone, *moving]


def box_bytes(tensor_type: TensorType, layout: Layout, box: Box) -> int:
    """Bytes of a box when it lies densely in a layout."""
    return prod(layout.physical_shape(box_shape(box))) * tensor_type.dtype.size_bytes


def contiguous_bytes(tensor_type: TensorType, layout: Layout, box: Box) -> int:
    """The unbroken run of bytes of a box within its whole, dense tensor."""
    whole: Shape = layout.physical_shape(tensor_type.shape)
    part: Shape = layout.physical_shape(box_shape(box))
    run = tensor_type.dtype.size_bytes
    for extent, full in zip(reversed(part), reversed(whole), strict=True):
        run *= extent
        if extent != full:
            break
    return run


def stream_bytes(work: Workload, stream: Stream, boxes: Boxes, alignment: int) -> int:
    """Bytes of one slot of a stream."""
    return sum(
        align(box_bytes(work.types[value], work.layout(value), boxes[value]), alignment)
        for value in stream.values
        if value in boxes
    )


def align(size_bytes: int, alignment: int) -> int:
    """Round up to a multiple of an alignment."""
    return -(-size_bytes // alignment) * alignment
