"""Where results of convolutions, pooling, padding and resizing lie, by where their operands do."""

from __future__ import annotations

from collections.abc import Sequence

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
from stages.recipe.kinds import Kind
from stages.recipe.semantics.resize import resize_axis, resize_span
from stages.recipe.window import Window


def slid(tile: Tile, starts: Sequence[Starts], whole: Window, part: Window) -> list[int | None]:
    """Where the result of a sliding window begins along each spatial axis. A tile's padding is in
    place of what lies beyond the whole value's edges, and of nothing else.

    Raises:
        MisplacedError: it is in place of elements, or the tile begins within a stride.
    """
    side, result = tile.operand(0), tile.results[0]
    found: list[int | None] = []
    for axis, stride in enumerate(whole.strides):
        start, extent = starts[0][axis + 2], side.shape[axis + 2]
        if start is None:
            found.append(None)
            continue
        low = start - part.begins[axis]
        place, rest = divmod(low + whole.begins[axis], stride)
        if rest:
            raise MisplacedError(f"spatial axis {axis} begins within a stride")
        count = result.shape[axis + 2]
        high = low + (count - 1) * stride + whole.spans[axis]
        _need_inside((low, high), (start, start + extent), side.full[axis + 2], axis)
        found.append(place)
    return found


def _need_inside(reached: tuple[int, int], held: tuple[int, int], extent: int, axis: int) -> None:
    low, high = max(0, reached[0]), min(extent, reached[1])
    if low < high and (low < held[0] or held[1] < high):
        raise MisplacedError(
            f"spatial axis {axis} needs [{low}, {high}), and its tile is [{held[0]}, {held[1]}): "
            "padding stands for elements"
        )


def pool(tile: Tile, starts: Sequence[Starts]) -> Starts:
    """Pooling: channels and batch stay; a tile's overhang follows from its padding."""
    kernel = tile.whole.integers("kernel")
    whole, part = Window.of(tile.whole, kernel), Window.of(tile.operator, kernel)
    spatial = slid(tile, starts, whole, part)
    if "overhang" in tile.whole.attributes:
        never, mine = tile.whole.integers("overhang"), tile.operator.integers("overhang")
        side, result = tile.operand(0), tile.results[0]
        for axis, place in enumerate(spatial):
            if place is None:
                continue
            last = place + result.shape[axis + 2] - 1
            stop = last * whole.strides[axis] - whole.begins[axis] + whole.spans[axis]
            counted = side.full[axis + 2] + whole.ends[axis] - never[axis]
            if mine[axis] != max(0, stop - counted):
                raise MisplacedError(f"spatial axis {axis} has an overhang of {mine[axis]}")
    return (*starts[0][:2], *spatial)


def conv(tile: Tile, starts: Sequence[Starts]) -> tuple[Starts, Summed]:
    """A convolution: its weights say which output channels."""
    x, w = tile.operand(0), tile.operand(1)
    kernel = w.full[2:]
    need_whole(w, starts[1], range(2, len(w.full)), "the weights' window")
    window = Window.of(tile.whole, kernel)
    spatial = slid(tile, starts, window, Window.of(tile.operator, kernel))
    group = tile.whole.integer("group")
    out, inner = starts[1][0], starts[1][1]
    summed = Summed(0, w.full[1], w.full[1])
    if group == 1:
        inner = same(starts[0][1], inner, "the input channels")
        if inner is not None:
            summed = Summed(inner, inner + w.shape[1], w.full[1])
    else:
        need_whole(w, starts[1], (1,), "the weights' input channels")
        _need_groups(tile, x, w, starts, group)
    if len(starts) > 2 and tile.operands[2] is not None:
        out = same(out, starts[2][0], "the output channels")
    return (starts[0][0], out, *spatial), summed


def _need_groups(tile: Tile, x: Side, w: Side, starts: Sequence[Starts], group: int) -> None:
    """The input channels are those of the groups whose weights are here."""
    each, count = w.full[0] // group, w.shape[0]
    held = tile.operator.integer("group")
    if held != max(1, count // each):
        raise MisplacedError(f"{count} output channels are {held} groups of {each}")
    out, channels = starts[1][0], starts[0][1]
    if out is None or channels is None:
        return
    cuts = out % each or count % each
    if cuts and out // each != (out + count - 1) // each:
        raise MisplacedError("its output channels begin within a group and end in another")
    first = out // each * w.full[1]
    if channels != first or x.shape[1] != held * w.full[1]:
        raise MisplacedError(
            f"its groups read input channels from {first} on, and these begin at {channels}"
        )


def conv_transpose(tile: Tile, starts: Sequence[Starts]) -> Starts:
    """A transposed convolution: all of the input's channels, and every pixel that reaches the
    tile."""
    x, w, result = tile.operand(0), tile.operand(1), tile.results[0]
    need_whole(x, starts[0], (1,), "the input's channels")
    need_whole(w, starts[1], (0, *range(2, len(w.full))), "the weights")
    out = starts[1][1]
    if tile.whole.integer("group") > 1:
        need_whole(w, starts[1], (1,), "the weights' output channels")
        out = 0
    if len(starts) > 2 and tile.operands[2] is not None:
        out = same(out, starts[2][0], "the output channels")
    whole, part = Window.of(tile.whole, w.full[2:]), Window.of(tile.operator, w.full[2:])
    spatial: list[int | None] = []
    for axis, stride in enumerate(whole.strides):
        start = starts[0][axis + 2]
        if start is None:
            spatial.append(None)
            continue
        begin, span, extent = whole.begins[axis], whole.spans[axis], x.full[axis + 2]
        place = start * stride + part.begins[axis] - begin
        last = place + result.shape[axis + 2] - 1
        reached = (-((span - 1 - place - begin) // stride), (last + begin) // stride + 1)
        _need_inside(reached, (start, start + x.shape[axis + 2]), extent, axis)
        spatial.append(place)
    return (starts[0][0], out, *spatial)


def pad(tile: Tile, starts: Sequence[Starts]) -> Starts:
    """Padding: a tile has the part that falls on it."""
    side, result = tile.operand(0), tile.results[0]
    rank = len(side.full)
    whole, part = tile.whole.integers("pads"), tile.operator.integers("pads")
    mode, found = tile.whole.word("mode"), list[int | None]()
    for axis, start in enumerate(starts[0]):
        if mode == "reflect" and (whole[axis] or whole[axis + rank]):
            need_whole(side, starts[0], (axis,), "what is reflected")
            found.append(0)
            continue
        if start is None:
            found.append(None)
            continue
        found.append(_padded(axis, start, side, result, (whole[axis], part[axis]), mode))
    return tuple(found)


def _padded(
    axis: int, start: int, side: Side, result: Side, begins: tuple[int, int], mode: str
) -> int | None:
    """Where a padded tile begins; None where it holds nothing of the operand, or, with its edge
    repeated, one element that might stand anywhere behind the edge."""
    whole, part = begins
    extent, count = side.shape[axis], result.shape[axis]
    kept = min(extent + min(part, 0), count - max(part, 0))
    at_edge = start == 0 or start + extent == side.full[axis]
    if extent == 1 and at_edge and (kept <= 0 or (mode == "edge" and count > 1)):
        return None
    low = start - part
    _need_inside((low, low + count), (start, start + extent), side.full[axis], axis)
    return low + whole


def resize(tile: Tile, starts: Sequence[Starts]) -> Starts:
    """Resizing: a tile says of which boxes it is made, and needs all the elements that its own
    interpolate."""
    side, result = tile.operand(0), tile.results[0]
    attributes = tile.operator.attributes
    if "origin_output" not in attributes:
        need_whole(side, starts[0], range(len(side.full)), "what is resized")
        return (0,) * len(result.full)
    says = tile.operator.integers
    if says("full_input") != side.full or says("full_output") != result.full:
        raise MisplacedError("it is resized from or to other extents than the whole value")
    places = says("origin_output")
    for axis, (start, origin) in enumerate(zip(starts[0], says("origin_input"), strict=True)):
        same(start, origin, f"axis {axis}")
        stop = places[axis] + result.shape[axis]
        if places[axis] < 0 or stop > result.full[axis]:
            raise MisplacedError(f"axis {axis} of the result reaches beyond the whole value")
        law = resize_axis(tile.whole, side.full, result.full, axis)
        reached = resize_span(law, places[axis], stop)
        held = (origin, origin + side.shape[axis])
        _need_inside(reached, held, side.full[axis], axis)
    return places


def elementwise(tile: Tile, starts: Sequence[Starts]) -> Starts:
    """Each element from the operands' elements at the same place, numpy's broadcasting."""
    parts = [(side, starts[place]) for place, side in enumerate(tile.operands) if side is not None]
    return tuple(spread(parts, tile.results[0]))


WINDOWED = {
    Kind.MAX_POOL: pool,
    Kind.AVERAGE_POOL: pool,
    Kind.CONV_TRANSPOSE: conv_transpose,
    Kind.PAD: pad,
    Kind.RESIZE: resize,
}
