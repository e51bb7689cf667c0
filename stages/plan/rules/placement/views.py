"""Values that are elements of other values: slices, concatenations, reshapes and the like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from stages.plan.rules.placement.lattice import Key
from stages.plan.rules.placement.repeats import equal_axes
from stages.recipe.decisions import Recipe
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import Box, Layout, LayoutKind, Shape, dense_strides, full_box


@dataclass(frozen=True, slots=True)
class Piece:
    """A box of a value, its axes in memory order, that is elements of a `source`: the element at
    `box` start + i is `index + sum(i * steps)` of the source as it lies when dense."""

    box: Box
    source: Key
    index: int
    steps: tuple[int, ...]

    def cut(self, box: Box) -> Piece | None:
        """The part of it in a box; None where there is none."""
        part, index = [], self.index
        for (start, stop), (low, high), step in zip(self.box, box, self.steps, strict=True):
            first, last = max(start, low), min(stop, high)
            if first >= last:
                return None
            part.append((first, last))
            index += (first - start) * step
        return Piece(tuple(part), self.source, index, self.steps)

    def place(self, index: int) -> tuple[int | None, ...] | None:
        """Where in the value an element of the source is; None where it isn't in this piece. An
        axis along which all elements are one has None."""
        rest = index - self.index
        for step, (start, stop) in zip(self.steps, self.box, strict=True):
            if step < 0:  # as if counted from the other end
                rest -= step * (stop - start - 1)
        found: list[int | None] = [None] * len(self.steps)
        order = sorted(range(len(self.steps)), key=lambda axis: -abs(self.steps[axis]))
        for axis in order:
            step, (start, stop) = self.steps[axis], self.box[axis]
            if stop - start == 1 or step == 0:
                found[axis] = start if stop - start == 1 else None
                continue
            times = min(rest // abs(step), stop - start - 1)
            if rest < 0:
                return None
            rest -= times * abs(step)
            found[axis] = start + times if step > 0 else stop - 1 - times
        return None if rest else tuple(found)


Pieces = tuple[Piece, ...]


@lru_cache(maxsize=65536)
def dense_steps(shape: Shape, layout: Layout) -> tuple[int, ...]:
    """Elements from one to the next along each axis in memory order of a dense value."""
    return dense_strides(layout.physical_shape(shape), 1)


def atom(
    key: Key, shape: Shape, layout: Layout, equal_along: frozenset[int] = frozenset()
) -> Pieces:
    """A value that is its own; along some axes all of its elements are equal, and count as one."""
    steps = dense_steps(shape, layout)
    if equal_along:
        steps = tuple([0 if axis in equal_along else by for axis, by in enumerate(steps)])
    return (Piece(full_box(layout.physical_shape(shape)), key, 0, steps),)


class Views:
    """What each value of a recipe is made of. `computed` are the operators that kernels compute:
    what they make is a value of its own, but for an expansion."""

    def __init__(self, recipe: Recipe, computed: frozenset[str]) -> None:
        self._recipe = recipe
        self._makers = {
            name: operator
            for operator in recipe.graph.operators
            if operator.name not in computed or operator.kind is Kind.EXPAND
            for name in operator.outputs
        }
        self._known: dict[str, Pieces | None] = {}
        self._equal = equal_axes(recipe)

    def of(self, name: str) -> Pieces | None:
        """The pieces of a value; None where they aren't worked out: a view whose elements don't
        lie at regular steps of another value."""
        chain = [name]
        while chain:
            value = chain[-1]
            if value in self._known:
                chain.pop()
                continue
            maker = self._makers.get(value)
            needed = [item for item in (maker.operands if maker else ()) if item not in self._known]
            if needed:
                chain += needed
                continue
            self._known[value] = self._work_out(value, maker)
            chain.pop()
        return self._known[name]

    def _work_out(self, name: str, maker: Operator | None) -> Pieces | None:
        if maker is None:
            layout = self._recipe.layout(name)
            return atom(name, self._shape(name), layout, self._equal.get(name, frozenset()))
        if not self._recipe.graph.types[name].element_count:
            return None
        match maker.kind:
            case Kind.IDENTITY | Kind.RESHAPE | Kind.RELAYOUT:
                return self._reshaped(name, maker.inputs[0])
            case Kind.SLICE:
                starts, steps = maker.integers("starts"), maker.integers("steps")
                axes = tuple(range(len(starts)))
                return self._picked(name, maker.inputs[0], axes, starts, steps)
            case Kind.SPLIT:
                return self._part(name, maker)
            case Kind.TRANSPOSE:
                axes = maker.integers("permutation")
                return self._picked(name, maker.inputs[0], axes, (0,) * len(axes), (1,) * len(axes))
            case Kind.EXPAND:
                return self._expanded(name, maker.inputs[0])
            case Kind.CONCAT:
                return self._concatenated(name, maker)
        return None

    def _shape(self, name: str) -> Shape:
        return self._recipe.graph.types[name].shape

    def _physical(self, name: str) -> Shape:
        return self._recipe.layout(name).physical_shape(self._shape(name))

    def _part(self, name: str, maker: Operator) -> Pieces | None:
        axis, rank = maker.integer("axis"), len(self._shape(name))
        before = sum(maker.integers("sizes")[: maker.outputs.index(name)])
        starts = tuple(before if place == axis else 0 for place in range(rank))
        return self._picked(name, maker.inputs[0], tuple(range(rank)), starts, (1,) * rank)

    def _reshaped(self, name: str, source: str) -> Pieces | None:
        """The same elements in the same order."""
        pieces = self._known[source]
        one = (self._shape(name), self._recipe.layout(name))
        other = (self._shape(source), self._recipe.layout(source))
        if pieces is None or not (one == other or (_in_order(*one) and _in_order(*other))):
            return None
        mine, theirs = self._physical(name), self._physical(source)
        if mine == theirs:
            return pieces
        found = [_refolded(piece, theirs, mine) for piece in pieces]
        kept = tuple(piece for piece in found if piece is not None)
        return kept if len(kept) == len(found) else None

    def _picked(
        self,
        name: str,
        source: str,
        axes: Sequence[int],
        starts: Sequence[int],
        steps: Sequence[int],
    ) -> Pieces | None:
        """A box of another value, each axis being one of its `axes`, every so many elements."""
        pieces = self._known[source]
        layout, held = self._recipe.layout(name), self._recipe.layout(source)
        order, moved = _memory_axes(layout, len(axes)), _memory_axes(held, len(axes))
        if pieces is None:
            return None
        if layout.kind is LayoutKind.NC1HWC2 or held.kind is LayoutKind.NC1HWC2:
            quantum = layout.quantum
            stop = starts[1] + self._shape(name)[1]
            ends = stop % quantum == 0 or stop == self._shape(source)[1]
            plain = axes[1] == 1 and starts[1] % quantum == 0 and steps[1] == 1 and ends
            if layout != held or not plain or tuple(axes) != tuple(range(len(axes))):
                return None
            starts = (starts[0], starts[1] // quantum, *starts[2:], 0)
            steps = (*steps, 1)
            order = moved = list(range(len(starts)))
            axes = order
        chosen = [moved.index(axes[place]) for place in order]
        begin = [starts[place] for place in order]
        by = [steps[place] for place in order]
        shape = self._physical(name)
        found = [_selected(piece, shape, chosen, begin, by) for piece in pieces]
        return tuple(piece for piece in found if piece is not None)

    def _expanded(self, name: str, source: str) -> Pieces | None:
        pieces = self._known[source]
        rank, held = len(self._shape(name)), len(self._shape(source))
        layout, other = self._recipe.layout(name), self._recipe.layout(source)
        plain = layout.kind is LayoutKind.ROW_MAJOR and other.kind is LayoutKind.ROW_MAJOR
        if pieces is None or not plain:
            return None
        found = []
        for piece in pieces:
            box = list(full_box(self._shape(name)))
            steps = [0] * rank
            for place, extent in enumerate(self._shape(source)):
                at = rank - held + place
                if extent == self._shape(name)[at]:
                    box[at], steps[at] = piece.box[place], piece.steps[place]
            found.append(Piece(tuple(box), piece.source, piece.index, tuple(steps)))
        return tuple(found)

    def _concatenated(self, name: str, maker: Operator) -> Pieces | None:
        axis, layout = maker.integer("axis"), self._recipe.layout(name)
        order = _memory_axes(layout, len(self._shape(name)))
        place = order.index(axis)
        found: list[Piece] = []
        before = 0
        for part in maker.operands:
            pieces = self._known[part]
            quantum = layout.quantum if axis == 1 else 1
            empty = not self._recipe.graph.types[part].element_count
            if empty:
                continue
            if pieces is None or self._recipe.layout(part) != layout or before % quantum:
                return None
            for piece in pieces:
                box = list(piece.box)
                start, stop = box[place]
                shift = before // quantum
                box[place] = (start + shift, stop + shift)
                found.append(Piece(tuple(box), piece.source, piece.index, piece.steps))
            before += self._shape(part)[axis]
        return tuple(found)


def _memory_axes(layout: Layout, rank: int) -> list[int]:
    """The logical axes in memory order; a blocked layout's last axis is left out."""
    if layout.kind is LayoutKind.NHWC:
        return [0, *range(2, rank), 1]
    return list(range(rank))


def _in_order(shape: Shape, layout: Layout) -> bool:
    """Whether elements lie in their logical order, without gaps."""
    if layout.kind is LayoutKind.ROW_MAJOR:
        return True
    channels, places = shape[1], 1
    for extent in shape[2:]:
        places *= extent
    if layout.kind is LayoutKind.NHWC:
        return channels == 1 or places == 1
    return channels % layout.quantum == 0 and (places == 1 or layout.quantum == 1)


def _selected(
    piece: Piece, shape: Shape, axes: Sequence[int], starts: Sequence[int], steps: Sequence[int]
) -> Piece | None:
    """The part of a piece that a selection takes, in the selection's own indices."""
    box, widths, index = [], [], piece.index
    for extent, axis, start, step in zip(shape, axes, starts, steps, strict=True):
        low, high = piece.box[axis]
        if step > 0:
            first, last = -(-(low - start) // step), -(-(high - start) // step)
        else:
            first, last = -(-(start - high + 1) // -step), (start - low) // -step + 1
        first, last = max(0, first), min(extent, last)
        if first >= last:
            return None
        box.append((first, last))
        widths.append(piece.steps[axis] * step)
        index += (start + first * step - low) * piece.steps[axis]
    return Piece(tuple(box), piece.source, index, tuple(widths))


def _refolded(piece: Piece, shape: Shape, wanted: Shape) -> Piece | None:
    """A piece of a value of this shape, as one of a value of the same elements in another shape;
    None where it is no box of it, or has no regular steps."""
    held = _runs(dense_strides(shape, 1), piece.box, piece.steps)
    first = sum(
        start * step for (start, _), step in zip(piece.box, dense_strides(shape, 1), strict=True)
    )
    box, steps = [], []
    for extent, step in zip(wanted, dense_strides(wanted, 1), strict=True):
        start, first = divmod(first, step)
        count, by = 1, 0
        for many, width, elements in held:
            # the part of this run that goes on along this axis
            if extent > 1 and width <= step < many * width and step % width == 0:
                inside = step // width
                if many % inside:
                    return None
                count, by = min(many // inside, extent - start), elements * inside
                break
            if extent > 1 and step < width < step * extent:
                return None
        box.append((start, start + count))
        steps.append(by)
    total = 1
    for start, stop in box:
        total *= stop - start
    wanted_total = 1
    for start, stop in piece.box:
        wanted_total *= stop - start
    if first or total != wanted_total:
        return None
    return Piece(tuple(box), piece.source, piece.index, tuple(steps))


def _runs(dense: Sequence[int], box: Box, steps: Sequence[int]) -> list[tuple[int, int, int]]:
    """How many, elements of the value and of the source from one to the next; neighbours joined."""
    axes = [
        (stop - start, width, step)
        for width, (start, stop), step in zip(dense, box, steps, strict=True)
        if stop - start > 1
    ]
    joined: list[tuple[int, int, int]] = []
    for axis in axes:
        if joined:
            outer = joined[-1]
            if outer[1] == axis[0] * axis[1] and outer[2] == axis[0] * axis[2]:
                joined[-1] = (outer[0] * axis[0], axis[1], axis[2])
                continue
        joined.append(axis)
    return joined
