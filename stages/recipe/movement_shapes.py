"""Shape rules of data movement."""

from __future__ import annotations

from math import prod

from stages.recipe.graph import Operator
from stages.recipe.shapes import (
    Declared,
    Operands,
    Types,
    first,
    legal_axis,
    legal_length,
    need,
    present,
    same_family,
)
from stages.tensors import Shape, TensorType


def concat(operator: Operator, operands: Operands, _: Declared) -> Types:
    """Extents add up along the axis and agree elsewhere."""
    parts = present(operands)
    same_family(operator, parts)
    head = parts[0]
    axis = legal_axis(operator, head.rank)
    for part in parts:
        agrees = part.rank == head.rank and all(
            mine == other or place == axis
            for place, (mine, other) in enumerate(zip(part.shape, head.shape, strict=True))
        )
        need(
            agrees,
            f"concat along axis {axis} of {', '.join(map(str, parts))}",
            "the other axes must have equal extents",
        )
    total = sum(part.shape[axis] for part in parts)
    return (TensorType(head.dtype, (*head.shape[:axis], total, *head.shape[axis + 1 :])),)


def slice_box(operator: Operator, operands: Operands, _: Declared) -> Types:
    """The number of steps from start to stop along each axis."""
    x = first(operands)
    starts = legal_length(operator, "starts", x.rank)
    stops = legal_length(operator, "stops", x.rank)
    steps = legal_length(operator, "steps", x.rank)
    need(all(steps), f"steps {list(steps)} hold a zero", "a step is never 0", "steps")
    for start, stop, step, extent in zip(starts, stops, steps, x.shape, strict=True):
        low, high = (0, extent) if step > 0 else (-1, extent - 1)
        need(
            low <= stop <= high and low <= start <= max(high, low) and (start >= 0 or extent == 0),
            f"slice from {start} to {stop} in steps of {step} leaves an axis of extent {extent}",
            "starts and stops are normalised: within the axis; the stop of a negative step is -1 "
            "or more",
        )
    shape = tuple(
        len(range(start, stop, step))
        for start, stop, step in zip(starts, stops, steps, strict=True)
    )
    return (TensorType(x.dtype, shape),)


def split(operator: Operator, operands: Operands, _: Declared) -> Types:
    """One result for each size."""
    x = first(operands)
    axis = legal_axis(operator, x.rank)
    sizes = operator.integers("sizes")
    need(
        sum(sizes) == x.shape[axis] and all(size >= 0 for size in sizes),
        f"sizes {list(sizes)} don't add up to the {x.shape[axis]} elements of axis {axis}",
        "the sizes of the parts must add up to the extent of the axis",
        "sizes",
    )
    return tuple(
        TensorType(x.dtype, (*x.shape[:axis], size, *x.shape[axis + 1 :])) for size in sizes
    )


def pad(operator: Operator, operands: Operands, _: Declared) -> Types:
    """Extents grow by both pads; negative pads crop."""
    x = first(operands)
    pads = legal_length(operator, "pads", 2 * x.rank)
    begins, ends = pads[: x.rank], pads[x.rank :]
    shape = tuple(
        begin + extent + end for begin, extent, end in zip(begins, x.shape, ends, strict=True)
    )
    need(
        all(extent >= 0 for extent in shape),
        f"pads {list(pads)} crop more than {x} holds",
        "crop less than the extent",
        "pads",
    )
    if operator.word("mode") == "reflect":
        cropped = tuple(
            extent + min(begin, 0) + min(end, 0)
            for begin, extent, end in zip(begins, x.shape, ends, strict=True)
        )
        need(
            all(
                max(begin, end) < max(extent, 1)
                for begin, extent, end in zip(begins, cropped, ends, strict=True)
            ),
            f"pads {list(pads)} reflect more than {x} holds",
            "a reflected pad is smaller than the extent",
            "pads",
        )
    return (TensorType(x.dtype, shape),)


def resize(operator: Operator, operands: Operands, declared: Declared) -> Types:
    """Of a whole tensor: `full_output`, or floor(extent * scale). Of a tile: as declared."""
    x = first(operands)
    scales = operator.numbers("scales")
    need(
        len(scales) == x.rank and all(scale > 0 for scale in scales),
        f"scales {list(scales)} of an operand of rank {x.rank}",
        "give one positive scale for each axis",
        "scales",
    )
    for name in ("full_input", "full_output", "origin_input", "origin_output"):
        if name in operator.attributes:
            legal_length(operator, name, x.rank)
    if "origin_output" in operator.attributes or "origin_input" in operator.attributes:
        return (TensorType(x.dtype, _tile_of_resize(operator, x.rank, declared)),)
    if "full_output" in operator.attributes:
        return (TensorType(x.dtype, operator.integers("full_output")),)
    shape = tuple(int(extent * scale) for extent, scale in zip(x.shape, scales, strict=True))
    return (TensorType(x.dtype, shape),)


def _tile_of_resize(operator: Operator, rank: int, declared: Declared) -> Shape:
    need(
        len(declared) == 1 and declared[0].rank == rank,
        "the result type of a tile of resize can't be inferred",
        "declare the type of its result",
    )
    shape = declared[0].shape
    if "full_output" in operator.attributes:
        full = operator.integers("full_output")
        origin = (0,) * rank
        if "origin_output" in operator.attributes:
            origin = operator.integers("origin_output")
        need(
            all(
                begin >= 0 and begin + extent <= whole
                for begin, extent, whole in zip(origin, shape, full, strict=True)
            ),
            f"a tile {list(shape)} from {list(origin)} doesn't lie in the whole {list(full)}",
            "let the tile begin and end inside `full_output`",
            "origin_output",
        )
    return shape


def transpose(operator: Operator, operands: Operands, _: Declared) -> Types:
    """The extents in another order."""
    x = first(operands)
    permutation = operator.integers("permutation")
    need(
        sorted(permutation) == list(range(x.rank)),
        f"permutation {list(permutation)} of an operand of rank {x.rank}",
        "name every axis once",
        "permutation",
    )
    return (TensorType(x.dtype, tuple(x.shape[axis] for axis in permutation)),)


def reshape(operator: Operator, operands: Operands, _: Declared) -> Types:
    """The given shape; it holds as many elements."""
    x = first(operands)
    shape = operator.integers("shape")
    need(
        all(extent >= 0 for extent in shape) and prod(shape) == x.element_count,
        f"shape {list(shape)} doesn't hold the {x.element_count} elements of {x}",
        "write every extent out; -1 isn't allowed",
        "shape",
    )
    return (TensorType(x.dtype, shape),)


def expand(operator: Operator, operands: Operands, _: Declared) -> Types:
    """What the operand's shape and the given one broadcast to."""
    x = first(operands)
    shape = operator.integers("shape")
    rank = max(x.rank, len(shape))
    mine = (1,) * (rank - x.rank) + x.shape
    other = (1,) * (rank - len(shape)) + shape
    need(
        all(a == b or 1 in (a, b) for a, b in zip(mine, other, strict=True)),
        f"{x} doesn't broadcast to {list(shape)}",
        "extents must be equal or 1, aligned at the last axis",
        "shape",
    )
    return (
        TensorType(x.dtype, tuple(b if a == 1 else a for a, b in zip(mine, other, strict=True))),
    )


def gather(operator: Operator, operands: Operands, _: Declared) -> Types:
    """The table's shape with the indices' shape in place of the axis."""
    table, indices = present(operands)
    axis = legal_axis(operator, table.rank)
    need(
        not indices.dtype.is_float,
        f"the indices of gather are {indices}",
        "indices are integers",
    )
    shape = (*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :])
    return (TensorType(table.dtype, shape),)
