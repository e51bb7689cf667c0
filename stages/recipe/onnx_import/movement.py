"""Data movement: views, concatenation, slices, padding, gathers."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.translation import (
    Attributes,
    NotRepresentable,
    Translation,
    Translator,
    axis_of,
)
from stages.tensors import Shape, TensorType


def view(t: Translation) -> None:
    """Reshape, Flatten, Squeeze, Unsqueeze: the same elements in another shape."""
    t.alias(t.operand(0))


def transpose(t: Translation) -> None:
    """Transpose."""
    x = t.operand(0)
    rank = t.type(x).rank
    permutation = t.node.integers("perm") or tuple(reversed(range(rank)))
    permutation = tuple(axis_of(axis, rank) for axis in permutation)
    if permutation == tuple(range(rank)):
        t.alias(x)
    else:
        t.emit(Kind.TRANSPOSE, (x,), {"permutation": permutation})


def concat(t: Translation) -> None:
    """Concat."""
    operands = t.operands()
    if len(operands) == 1:
        t.alias(operands[0])
        return
    t.emit(Kind.CONCAT, operands, {"axis": axis_of(t.node.integer("axis", 0), t.result.rank)})


def slice_(t: Translation) -> None:
    """Slice with constant bounds."""
    x = t.operand(0)
    shape = t.shape(x)
    if t.node.version < 10:
        begins, ends = t.node.integers("starts"), t.node.integers("ends")
        axes, steps = t.node.integers("axes"), None
    else:
        begins, ends = t.constant_integers(1), t.constant_integers(2)
        axes, steps = t.constant_integers(3), t.constant_integers(4)
    if begins is None or ends is None:
        raise NotRepresentable("its bounds aren't written")
    axes = axes if axes is not None else tuple(range(len(begins)))
    steps = steps if steps is not None else (1,) * len(begins)
    bounds = [(0, extent, 1) for extent in shape]
    for axis, begin, end, step in zip(axes, begins, ends, steps, strict=True):
        index = axis_of(axis, len(shape))
        bounds[index] = slice_bounds(begin, end, step, shape[index])
    emit_slice(t, x, bounds)


def slice_bounds(begin: int, end: int, step: int, extent: int) -> tuple[int, int, int]:
    """Start, stop and step as `range` takes them; an empty slice is (0, 0, 1).

    Bounds are clamped as ONNX says, which differs from Python for a start before the first element.
    """
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    start = min(max(axis_of(begin, extent), 0), high)
    stop = min(max(axis_of(end, extent), low), high)
    picked = range(start, stop, step)
    if not picked or not extent:
        return 0, 0, 1
    return start, picked[-1] + (1 if step > 0 else -1), step


def emit_slice(t: Translation, x: str, bounds: list[tuple[int, int, int]]) -> None:
    """Emit `slice`, unless it takes everything."""
    if all(bound == (0, extent, 1) for bound, extent in zip(bounds, t.shape(x), strict=True)):
        t.alias(x)
        return
    t.emit(Kind.SLICE, (x,), slice_attributes(bounds))


def slice_attributes(bounds: list[tuple[int, int, int]]) -> dict[str, Shape]:
    """The attributes of `slice`; a negative step may stop at -1, before the first element."""
    starts, stops, steps = zip(*bounds, strict=True)
    return {"starts": starts, "stops": stops, "steps": steps}


def split(t: Translation) -> None:
    """Split."""
    x = t.operand(0)
    axis = axis_of(t.node.integer("axis", 0), t.type(x).rank)
    if len(t.node.proto.output) == 1:
        t.alias(x)
        return
    outputs, sizes = [], []
    for position, output in enumerate(t.node.proto.output):
        if output:
            outputs.append(output)
            sizes.append(t.shape(output)[axis])
            continue
        size = _unread_part(t, axis, position)
        shape = tuple(size if i == axis else n for i, n in enumerate(t.shape(x)))
        unread = TensorType(t.type(x).dtype, shape)
        outputs.append(t.builder.fresh_value(f"{t.node.label}.unread", unread))
        sizes.append(size)
    attributes: Attributes = {"axis": axis, "sizes": tuple(sizes)}
    t.builder.append(t.node.label, Kind.SPLIT, (x,), outputs, attributes)


def _unread_part(t: Translation, axis: int, position: int) -> int:
    sizes = t.node.integers("split") if t.node.version < 13 else t.constant_integers(1)
    if sizes:
        return sizes[position]
    count = len(t.node.proto.output)
    extent = t.shape(t.operand(0))[axis]
    part = -(-extent // count)
    return min(part, extent - part * position)


def pad(t: Translation) -> None:
    """Pad by constant, reflected or edge elements; negative pads crop."""
    x = t.operand(0)
    rank = t.type(x).rank
    mode = t.node.word("mode", "constant")
    if t.node.version < 11:
        pads = t.node.integers("pads")
        value = t.node.number("value", 0.0)
    else:
        pads, value = t.constant_integers(1), t.constant_number(2, 0.0)
    if pads is None or mode not in {"constant", "reflect", "edge"}:
        raise NotRepresentable(f"its mode is {mode}")
    axes = t.constant_integers(3)
    if axes is not None:
        pads = _spread(pads, [axis_of(axis, rank) for axis in axes], rank)
    if not any(pads):
        t.alias(x)
        return
    t.emit(Kind.PAD, (x,), {"pads": pads, "mode": mode, "value": value})


def _spread(pads: Shape, axes: list[int], rank: int) -> Shape:
    spread = [0] * (2 * rank)
    for position, axis in enumerate(axes):
        spread[axis] = pads[position]
        spread[axis + rank] = pads[position + len(axes)]
    return tuple(spread)


def expand(t: Translation) -> None:
    """Expand."""
    x = t.operand(0)
    if t.shape(x) == t.result.shape:
        t.alias(x)
        return
    t.emit(Kind.EXPAND, (x,), {"shape": t.result.shape})


def tile(t: Translation) -> None:
    """Tile: an expand, between reshapes where a repeated axis is longer than 1."""
    x = t.operand(0)
    source = t.type(x)
    pairs = list(zip(source.shape, t.result.shape, strict=True))
    if all(extent in (1, wanted) for extent, wanted in pairs):
        expand(t)
        return
    if 0 in source.shape:
        raise NotRepresentable("it repeats nothing")
    apart: list[int] = []
    repeated: list[int] = []
    for extent, wanted in pairs:
        if extent not in (1, wanted):
            apart.append(1)
            repeated.append(wanted // extent)
        apart.append(extent)
        repeated.append(wanted if extent == 1 else extent)
    spread = t.reshaped(x, tuple(apart))
    shape = tuple(repeated)
    copies = t.step(Kind.EXPAND, (spread,), TensorType(source.dtype, shape), {"shape": shape})
    t.emit(Kind.RESHAPE, (copies,), {"shape": t.result.shape})


def depth_to_space(t: Translation) -> None:
    """DepthToSpace as reshape, transpose, reshape."""
    x = t.operand(0)
    block = t.node.integer("blocksize", 1)
    batch, channels, height, width = t.shape(x)
    depth = channels // (block * block)
    if t.node.word("mode", "DCR") == "DCR":
        cut, order = (batch, block, block, depth, height, width), (0, 3, 4, 1, 5, 2)
    else:
        cut, order = (batch, depth, block, block, height, width), (0, 1, 4, 2, 5, 3)
    t.alias(t.transposed(t.reshaped(x, cut), order))


def space_to_depth(t: Translation) -> None:
    """SpaceToDepth as reshape, transpose, reshape."""
    x = t.operand(0)
    block = t.node.integer("blocksize", 1)
    batch, channels, height, width = t.shape(x)
    cut = (batch, channels, height // block, block, width // block, block)
    t.alias(t.transposed(t.reshaped(x, cut), (0, 3, 5, 1, 2, 4)))


def constant_of_shape(t: Translation) -> None:
    """ConstantOfShape of a shape that is static, though computed."""
    value = np.zeros(1, t.result.dtype.numpy)
    for attribute in t.node.proto.attribute:
        if attribute.name == "value":
            value = numpy_helper.to_array(attribute.t).reshape(-1)
    t.alias(t.constant("value", np.full(t.result.shape, value[0], t.result.dtype.numpy)))


def eye_like(t: Translation) -> None:
    """EyeLike: a constant, since its shape is static."""
    rows, columns = t.result.shape
    dtype = t.result.dtype.numpy
    t.alias(t.constant("eye", np.eye(rows, columns, t.node.integer("k", 0)).astype(dtype)))


def triangle(t: Translation) -> None:
    """Trilu with a constant diagonal: elements chosen by a constant mask."""
    diagonal = int(t.constant_number(1, 0.0))
    rows, columns = t.result.shape[-2:]
    ones = np.ones((rows, columns), np.bool_)
    upper = t.node.integer("upper", 1)
    mask = np.triu(ones, diagonal) if upper else np.tril(ones, diagonal)
    zero = t.scalar("zero", 0, t.result.dtype)
    t.emit(Kind.WHERE, (t.constant("mask", mask), t.operand(0), zero))


TABLE: dict[str, Translator] = {
    "Reshape": view,
    "Flatten": view,
    "Squeeze": view,
    "Unsqueeze": view,
    "Transpose": transpose,
    "Concat": concat,
    "Slice": slice_,
    "Split": split,
    "Pad": pad,
    "Expand": expand,
    "Tile": tile,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "ConstantOfShape": constant_of_shape,
    "EyeLike": eye_like,
    "Trilu": triangle,
}
