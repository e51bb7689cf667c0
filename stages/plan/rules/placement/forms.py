"""Regions of one form, seen as one value: what doesn't depend on where they lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from stages.plan.instructions import Region
from stages.plan.rules.placement.lattice import Axes, normal, reach
from stages.plan.rules.placement.tile import MisplacedError, Starts
from stages.plan.rules.placement.views import Piece, Pieces
from stages.tensors import Layout, LayoutKind, Shape

Steps = tuple[tuple[int, int], ...]
"""How many, and bytes from one to the next, along each axis in memory order."""


@dataclass(frozen=True, slots=True)
class Span:
    """How the bytes of a region lie: its steps, how far it reaches, whether its elements lie one
    behind the other, in their order and without gaps."""

    steps: Steps
    reach_bytes: int
    is_run: bool


def span_of(region: Region) -> Span:
    """How the bytes of a region lie."""
    layout = region.layout
    item = region.dtype.size_bytes
    return _span(region.shape, layout.kind.value, layout.quantum, region.strides, item)


@lru_cache(maxsize=65536)
def _span(shape: Shape, kind: str, quantum: int, strides: tuple[int, ...], item_bytes: int) -> Span:
    physical = Layout(LayoutKind(kind), quantum).physical_shape(shape)
    steps = tuple(zip(physical, strides, strict=True))
    axes = normal((count, by, 0) for count, by in steps)
    run, is_run = item_bytes, True
    for count, by in reversed(steps):
        if count != 1:
            is_run = is_run and by == run
            run *= count
    return Span(steps, reach(axes, item_bytes), is_run)


@dataclass(frozen=True, slots=True)
class Form:
    """Regions of one shape, layout and strides, seen as tiles of one value.

    `pieces` are what the value is made of, None where that isn't known; `axes` are those of a
    fragment that holds all of such a region, where there is one piece; `is_dense` says whether
    elements lie as they do where the whole value is dense; `order` goes through the axes from the
    widest step of the piece to the narrowest: axis, step, begin, how many places it may begin at.
    `order` is empty where places can't be found by it.
    """

    full: Shape
    layout: Layout
    span: Span
    pieces: Pieces | None
    axes: Axes = ()
    is_dense: bool = False
    order: tuple[tuple[int, int, int, int], ...] = ()
    whole: Shape = field(default=())

    @property
    def alone(self) -> Piece:
        """The only piece."""
        assert self.pieces is not None
        return self.pieces[0]

    def place(self, index: int) -> tuple[int, ...] | None:
        """Where a region begins whose first element is this of the source; None where it isn't of
        the piece, or reaches beyond it."""
        rest = index - self.alone.index
        found = [start for start, _ in self.alone.box]
        for axis, step, begin, places in self.order:
            times, rest = divmod(rest, step)
            if not 0 <= times < places:
                return None
            found[axis] = begin + times
        return None if rest else tuple(found)


def form_of(region: Region, full: Shape, pieces: Pieces | None) -> Form:
    """What is common to all regions of a region's form, as tiles of a value."""
    span, layout = span_of(region), region.layout
    whole = layout.physical_shape(full)
    if pieces is None or len(pieces) != 1:
        return Form(full, layout, span, pieces, whole=whole)
    (piece,) = pieces
    item = region.dtype.size_bytes
    axes = normal(
        (count, by, over) for (count, by), over in zip(span.steps, piece.steps, strict=True)
    )
    dense = all(
        count == 1 or by == over * item
        for (count, by), over in zip(span.steps, piece.steps, strict=True)
    )
    return Form(full, layout, span, pieces, axes, dense, _order(span, piece), whole)


def _order(span: Span, piece: Piece) -> tuple[tuple[int, int, int, int], ...]:
    """The axes along which the piece goes on, if each step is wider than all narrower ones reach
    and a region may begin anywhere along them."""
    axes = [
        (axis, step, start, stop - start)
        for axis, (step, (start, stop)) in enumerate(zip(piece.steps, piece.box, strict=True))
        if stop - start > 1
    ]
    axes.sort(key=lambda axis: -axis[1])
    inner = 1
    for _, step, _, extent in reversed(axes):
        if step < inner:
            return ()
        inner = (extent - 1) * step + inner
    return tuple(
        [
            (axis, step, start, extent - span.steps[axis][0] + 1)
            for axis, step, start, extent in axes
        ]
    )


def memory_corner(layout: Layout, starts: Starts) -> tuple[int, ...] | None:
    """Where a tile begins along each axis in memory order; None where that isn't known.

    Raises:
        MisplacedError: it begins within a block of channels.
    """
    known = []
    for start in starts:
        if start is None:
            return None
        known.append(start)
    if layout.kind is LayoutKind.ROW_MAJOR:
        return tuple(known)
    batch, channel, *spatial = known
    if layout.kind is LayoutKind.NHWC:
        return (batch, *spatial, channel)
    if channel % layout.quantum:
        raise MisplacedError(f"it begins at channel {channel}, within a block of {layout.quantum}")
    return (batch, channel // layout.quantum, *spatial, 0)


def logical_starts(layout: Layout, place: Starts) -> Starts:
    """The inverse of `memory_corner`, for what is known.

    Raises:
        MisplacedError: it begins within a block of channels.
    """
    if layout.kind is LayoutKind.ROW_MAJOR:
        return place
    if layout.kind is LayoutKind.NHWC:
        return (place[0], place[-1], *place[1:-1])
    block, within = place[1], place[-1]
    if within:
        raise MisplacedError("it begins within a block of channels")
    return (place[0], None if block is None else block * layout.quantum, *place[2:-1])
