"""Where a tile's results lie in the whole values, by where its operands do: a map for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stages.plan.rules.placement.lattice import normal
from stages.plan.rules.placement.tile import (
    MisplacedError,
    Side,
    Starts,
    Summed,
    Tile,
    need_whole,
    same,
    spread,
)
from stages.plan.rules.placement.windows import WINDOWED, conv, elementwise
from stages.recipe.kinds import Kind
from stages.recipe.operators import is_elementwise
from stages.tensors import dense_strides

Map = Callable[[Tile, Sequence[Starts]], Starts]


def mapped(tile: Tile, starts: Sequence[Starts]) -> tuple[list[Starts], Summed | None]:
    """Where each result begins, and how much of a contraction or reduction is in it; None where it
    is no such thing. An operand that is left out has empty starts.

    Raises:
        MisplacedError: the operands aren't the parts that belong together.
    """
    kind = tile.whole.kind
    if kind is Kind.CONV:
        place, summed = conv(tile, starts)
        return [place], summed
    if kind is Kind.MATMUL:
        place, summed = _matmul(tile, starts)
        return [place], summed
    if kind.startswith("reduce_"):
        place, reduced = _reduced(tile, starts)
        return [place], reduced
    if kind in WHOLE:
        return _whole(tile, starts), None
    found = MAPS.get(kind)
    if found is None:
        assert is_elementwise(kind), f"{kind} has a map"
        found = elementwise
    return [found(tile, starts)], None


def _matmul(tile: Tile, starts: Sequence[Starts]) -> tuple[Starts, Summed]:
    """Rows of the left operand, columns of the right one, the same span of what is contracted."""
    a, b = tile.operand(0), tile.operand(1)
    inner = same(starts[0][-1], starts[1][-2], "the contracted axis")
    batch = spread([(a, starts[0]), (b, starts[1])], tile.results[0], skip=2)
    place: Starts = (*batch, starts[0][-2], starts[1][-1])
    if len(starts) > 2 and tile.operands[2] is not None:
        result = tile.results[0]
        place = tuple(spread([(result, place), (tile.operand(2), starts[2])], result))
    extent = a.full[-1]
    if inner is None:
        return place, Summed(0, extent, extent)
    return place, Summed(inner, inner + a.shape[-1], extent)


def _reduced(tile: Tile, starts: Sequence[Starts]) -> tuple[Starts, Summed]:
    """A reduction: whole along its axes, or a part along one of them."""
    side, (begin, *_) = tile.operand(0), starts
    axes = {*tile.whole.integers("axes")}
    summed = Summed(0, 1, 1)
    place: list[int | None] = []
    for axis, start in enumerate(begin):
        if axis not in axes:
            place.append(start)
            continue
        if tile.whole.integer("keepdims"):
            place.append(0)
        if side.shape[axis] == side.full[axis]:
            need_whole(side, begin, (axis,), "what is reduced")
        elif summed.extent > 1:
            raise MisplacedError("it reduces a part of two axes")
        else:
            first = start or 0
            summed = Summed(first, first + side.shape[axis], side.full[axis])
    return tuple(place), summed


def _softmax(tile: Tile, starts: Sequence[Starts]) -> Starts:
    need_whole(tile.operand(0), starts[0], (tile.whole.integer("axis"),), "its row")
    return starts[0]


def _layer_norm(tile: Tile, starts: Sequence[Starts]) -> Starts:
    side = tile.operand(0)
    need_whole(side, starts[0], range(tile.whole.integer("axis"), len(side.full)), "its row")
    _need_whole_operands(tile, starts, 1)
    return starts[0]


def _need_whole_operands(tile: Tile, starts: Sequence[Starts], first: int) -> None:
    for place in range(first, len(tile.operands)):
        held = tile.operands[place]
        if held is not None:
            need_whole(held, starts[place], range(len(held.full)), f"operand {place}")


def _channel_norm(tile: Tile, starts: Sequence[Starts]) -> Starts:
    """Batch and instance normalisation: parameters are those of the channels."""
    side = tile.operand(0)
    if tile.whole.kind is Kind.INSTANCE_NORM:
        need_whole(side, starts[0], range(2, len(side.full)), "what is normalised")
    channel = starts[0][1]
    for place in range(1, len(tile.operands)):
        held = tile.operands[place]
        if held is not None and held.full != (1,):
            channel = same(channel, starts[place][0], "the channels")
    return (starts[0][0], channel, *starts[0][2:])


def _quantized(tile: Tile, starts: Sequence[Starts]) -> Starts:
    """Scales and zero points are one for all, or those of the tile's places along an axis."""
    side, axis = tile.operand(0), tile.whole.integer("axis")
    place = list(starts[0])
    for number in range(1, len(tile.operands)):
        held = tile.operands[number]
        if held is None:
            continue
        if axis >= 0 and len(held.full) == 1 and side.full[axis] == held.full[0] != 1:
            place[axis] = same(place[axis], starts[number][0], f"axis {axis}")
        else:
            need_whole(held, starts[number], range(len(held.full)), f"operand {number}")
    return tuple(place)


def _transposed(tile: Tile, starts: Sequence[Starts]) -> Starts:
    return tuple([starts[0][axis] for axis in tile.whole.integers("permutation")])


def _gathered(tile: Tile, starts: Sequence[Starts]) -> Starts:
    """The table is whole along the axis that is looked up; indices say where the rest begins."""
    axis = tile.whole.integer("axis")
    need_whole(tile.operand(0), starts[0], (axis,), "the table")
    return (*starts[0][:axis], *starts[1], *starts[0][axis + 1 :])


def _sliced(tile: Tile, starts: Sequence[Starts]) -> Starts:
    """A tile's own slice, of its part of the operand, picks elements that the whole slice picks."""
    says, mine = tile.whole.integers, tile.operator.integers
    found: list[int | None] = []
    for axis, (start, step) in enumerate(zip(starts[0], says("steps"), strict=True)):
        if start is None:
            found.append(None)
            continue
        place, rest = divmod(start + mine("starts")[axis] - says("starts")[axis], step)
        if rest or place < 0:
            raise MisplacedError(f"axis {axis} begins between the elements of the slice")
        found.append(place)
    return tuple(found)


def _expanded(tile: Tile, starts: Sequence[Starts]) -> Starts:
    side, result = tile.operand(0), tile.results[0]
    rank, held = len(result.full), len(side.full)
    found: list[int | None] = [None] * rank
    for axis, start in enumerate(starts[0]):
        at = rank - held + axis
        if side.full[axis] == result.full[at]:
            found[at] = start
    return tuple(found)


def _reshaped(tile: Tile, starts: Sequence[Starts]) -> Starts:
    """Operand and result are the same elements of the whole, in their order."""
    side, result = tile.operand(0), tile.results[0]
    if side.is_whole and result.is_whole:
        need_whole(side, starts[0], range(len(side.full)), "what is reshaped")
        return (0,) * len(result.full)
    if any(start is None for start in starts[0]):
        return (None,) * len(result.full)
    if _elements(side) != _elements(result):
        raise MisplacedError("operand and result are other elements of the whole")
    index = sum(
        start * step
        for start, step in zip(starts[0], dense_strides(side.full, 1), strict=True)
        if start is not None
    )
    found: list[int] = []
    for step in dense_strides(result.full, 1):
        place, index = divmod(index, step)
        found.append(place)
    return tuple(found)


def _elements(side: Side) -> object:
    steps = dense_strides(side.full, 1)
    return normal((many, by, by) for many, by in zip(side.shape, steps, strict=True))


def _whole(tile: Tile, starts: Sequence[Starts]) -> list[Starts]:
    """Kinds that have no tiles."""
    _need_whole_operands(tile, starts, 0)
    return [(0,) * len(result.full) for result in tile.results]


WHOLE = frozenset({Kind.CONCAT, Kind.SPLIT, Kind.HOST_CALL})
"""Kinds that have no tiles."""

MAPS: Mapping[Kind, Map] = {
    **WINDOWED,
    Kind.SOFTMAX: _softmax,
    Kind.LOG_SOFTMAX: _softmax,
    Kind.SOFTMAX_NUMERATOR: _softmax,
    Kind.LAYER_NORM: _layer_norm,
    Kind.BATCH_NORM: _channel_norm,
    Kind.INSTANCE_NORM: _channel_norm,
    Kind.QUANTIZE: _quantized,
    Kind.DEQUANTIZE: _quantized,
    Kind.TRANSPOSE: _transposed,
    Kind.GATHER: _gathered,
    Kind.SLICE: _sliced,
    Kind.EXPAND: _expanded,
    Kind.RESHAPE: _reshaped,
    Kind.IDENTITY: elementwise,
    Kind.RELAYOUT: elementwise,
}
"""Kinds whose results don't simply lie where their operands do."""
