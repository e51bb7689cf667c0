"""Chains: neighbouring groups through which a stripe of the last result can be followed backwards.

A chain is legal where each result that another of its groups reads is cut along one axis by a
stripe of the last result. A result whose readers all stand in the chain needs no place of its own:
it is held in a rolling buffer, row by row (as in Arm Vela's cascades).

Where a concatenation is written in place, what passes is its result: each group that makes an
operand fills its channels of the same rows, and all of them stand in the chain, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import lcm

from stages.compiler.draft import Draft
from stages.compiler.memory.lifetimes import view_operators
from stages.compiler.tiling.footprint import Span
from stages.compiler.tiling.workload import Boxes, Workload
from stages.recipe.decisions import Engine
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import Box, Layout, TensorType, full_box

_AXES = (2, 1, 0, 3)  # rows of images and of attention first; then rows of sequences
COLUMNS = 3
"""The axis of an image's columns: what stripes along it bring, rows bring as well."""
_WHOLE = -1
_SEVERAL = -2


@dataclass(frozen=True, slots=True)
class Join:
    """A concatenation in place, group `number`: its axis, and the groups that make its operands."""

    number: int
    axis: int
    makers: frozenset[int]


@dataclass(frozen=True, slots=True)
class Site:
    """The tiled groups of a draft, and who reads what.

    `works`: by group number. `readers`: the tiled groups that read a value. `leaving`: values that
    others read too, the caller among them. `pieces`: what is written in place of a concatenation's
    result, by the slice that tells where; `joins`: these results.
    """

    works: Mapping[int, Workload]
    readers: Mapping[str, tuple[int, ...]]
    leaving: frozenset[str]
    pieces: Mapping[str, Operator] = field(default_factory=dict)
    joins: Mapping[str, Join] = field(default_factory=dict)
    followed: dict[tuple[int, int], Mapping[str, int]] = field(default_factory=dict)

    def cut_axes(self, number: int, axis: int) -> Mapping[str, int]:
        """For each operand of a group the axis along which a cut of its result cuts it; negative
        where it is needed whole, or cut along several axes."""
        found = self.followed.get((number, axis))
        if found is None:
            found = self.followed[number, axis] = _cut_axes(self.works[number], axis)
        return found

    def can_cut(self, number: int, axis: int) -> bool:
        """Whether a group's result can be cut anywhere along an axis."""
        return self.works[number].result_type.shape[axis] > self.step(number, axis)

    def step(self, number: int, axis: int) -> int:
        """What cuts of a group's result along an axis are multiples of: a block of channels."""
        return self.works[number].granularity(axis)

    def passed(self, number: int) -> str:
        """What a group hands on: its result, or what that is a piece of."""
        result = self.works[number].result
        piece = self.pieces.get(result)
        return result if piece is None else piece.inputs[0]

    def is_held(self, value: str, stop: int) -> bool:
        """Whether a value passes within a chain alone that ends before group `stop`."""
        readers = self.readers.get(value, ())
        return value not in self.leaving and all(number < stop for number in readers)


@dataclass(frozen=True, slots=True)
class Chain:
    """The tiled groups `numbers` of `[start, stop)` as a chain; the others are concatenations in
    place. `axes`: of each group's result, the axis along which it is cut. `passes`: what each
    hands on. `held`: of that, what passes within the chain alone; `inner`: all that passes.
    `pieces`: results that are part of what passes. `step`: what all cuts are multiples of.
    `is_whole`: whether the makers of what is joined are all in it. `known`: boxes asked for."""

    start: int
    stop: int
    numbers: tuple[int, ...]
    works: tuple[Workload, ...]
    axes: tuple[int, ...]
    passes: tuple[str, ...]
    held: tuple[str, ...]
    inner: frozenset[str]
    pieces: Mapping[str, Operator]
    step: int
    is_whole: bool
    known: dict[tuple[int, Span], Boxes] = field(default_factory=dict, compare=False)

    @property
    def extent(self) -> int:
        """The extent of the last result along its axis."""
        return self.works[-1].result_type.shape[self.axes[-1]]

    def form(self, value: str) -> tuple[TensorType, Layout]:
        """The type and the layout of what passes."""
        work = next(work for work in self.works if value in work.types)
        return work.types[value], work.layout(value)

    def axis_of(self, value: str) -> int:
        """The axis along which what passes is cut."""
        return self.axes[self.passes.index(value)]

    def rows_of(self, value: str, start: int, stop: int) -> Box:
        """The box of what passes over a span of rows."""
        box = list(full_box(self.form(value)[0].shape))
        box[self.axis_of(value)] = (start, stop)
        return tuple(box)

    def box(self, place: int, start: int, stop: int) -> Box:
        """The box of the result of a group (by its place in the chain) over a span of rows."""
        box = list(full_box(self.works[place].result_type.shape))
        box[self.axes[place]] = (start, stop)
        return tuple(box)

    def boxes(self, place: int, span: Span) -> Boxes:
        """The boxes of every value of a group for a span of rows of its result."""
        found = self.known.get((place, span))
        if found is None:
            found = self.known[place, span] = self.works[place].boxes(self.box(place, *span))
        return found


def site_of(draft: Draft, works: Mapping[int, Workload]) -> Site:
    """The site of a draft whose groups are final."""
    readers: dict[str, list[int]] = {}
    for number, work in works.items():
        for value in work.operands:
            readers.setdefault(value, []).append(number)
    by_name = {operator.name: operator for operator in draft.graph.operators}
    pieces, joins = _joined(draft, works)
    leaving = set(draft.graph.outputs)
    for number, group in enumerate(draft.recipe.groups):
        if number not in works:
            leaving.update(value for name in group.operators for value in by_name[name].operands)
    return Site(
        works,
        {value: tuple(numbers) for value, numbers in readers.items()},
        frozenset(leaving),
        pieces,
        joins,
    )


def _joined(
    draft: Draft, works: Mapping[int, Workload]
) -> tuple[dict[str, Operator], dict[str, Join]]:
    """Concatenations in place that no view leads on, each of whose operands a tiled group makes for
    it alone: the pieces, and what is made of them."""
    views, consumers = view_operators(draft), draft.graph.consumers()
    makers = {work.result: number for number, work in works.items()}
    by_name = {operator.name: operator for operator in draft.graph.operators}
    pieces: dict[str, Operator] = {}
    joins: dict[str, Join] = {}
    for number, group in enumerate(draft.recipe.groups):
        concat = by_name[group.operators[0]]
        if group.engine is not Engine.NONE or concat.kind is not Kind.CONCAT:
            continue
        (result,), operands = concat.outputs, concat.operands
        alone = all(value in makers and len(consumers[value]) == 1 for value in operands)
        if alone and result not in views:
            pieces |= {value: views[value] for value in operands}
            made_by = frozenset(makers[value] for value in operands)
            joins[result] = Join(number, concat.integer("axis"), made_by)
    return pieces, joins


def axes_of(site: Site, last: int) -> Iterator[int]:
    """The axes along which the result of a group may be cut in stripes."""
    rank = site.works[last].result_type.rank
    for axis in _AXES:
        if axis < rank and site.can_cut(last, axis):
            yield axis


def chains_ending(site: Site, last: int, axis: int, longest: int) -> Iterator[Chain]:
    """The chains that end with a group, from two groups on, each one group longer."""
    axes = {last: axis}
    between = {join.number for join in site.joins.values()}
    for first in range(last - 1, -1, -1):
        if first in between:
            continue
        found = _axis_of(site, first, axes)
        if found is None or len(axes) == longest:
            return
        axes[first] = found
        yield _chain(site, first, last + 1, axes)


def _axis_of(site: Site, first: int, axes: Mapping[int, int]) -> int | None:
    """The axis along which the chain's readers of a group cut it; None where they can't."""
    if first not in site.works:
        return None
    result = site.passed(first)
    readers = [number for number in site.readers.get(result, ()) if number in axes]
    cuts = {site.cut_axes(reader, axes[reader])[result] for reader in readers}
    if len(cuts) != 1:
        return None
    (cut,) = cuts
    join = site.joins.get(result)
    if cut < 0 or not site.can_cut(first, cut) or (join is not None and cut == join.axis):
        return None
    for reader in readers:
        step = max(site.step(first, cut), site.step(reader, axes[reader]))
        if step > 1 and not _keeps_places(site.works[reader], axes[reader], result, cut, step):
            return None
    return cut


def _keeps_places(work: Workload, axis: int, value: str, cut: int, step: int) -> bool:
    """Whether a group needs just the same places of an operand as it makes of its result: then
    blocks of the one are blocks of the other."""
    shape = work.result_type.shape
    if shape[axis] != work.types[value].shape[cut]:
        return False
    last = (shape[axis] - 1) // step * step
    for start, stop in ((0, step), (last, shape[axis])):
        box = list(full_box(shape))
        box[axis] = (start, min(stop, shape[axis]))
        if work.boxes(tuple(box))[value][cut] != box[axis]:
            return False
    return True


def _chain(site: Site, start: int, stop: int, axes: Mapping[int, int]) -> Chain:
    numbers = tuple(sorted(axes))
    works = tuple(site.works[number] for number in numbers)
    # The last result is what the chain is for, even where it is a piece of something.
    passes = (*(site.passed(number) for number in numbers[:-1]), works[-1].result)
    inner = frozenset(passes[:-1])
    held = tuple(v for v in dict.fromkeys(passes[:-1]) if site.is_held(v, stop))
    joined = inner & site.joins.keys()
    return Chain(
        start,
        stop,
        numbers,
        works,
        tuple(axes[number] for number in numbers),
        passes,
        held,
        inner,
        {
            work.result: site.pieces[work.result]
            for work, value in zip(works, passes, strict=True)
            if value in joined
        },
        lcm(*(site.step(number, axes[number]) for number in numbers)),
        all(value in held and site.joins[value].makers <= {*numbers} for value in joined),
    )


def _cut_axes(work: Workload, axis: int) -> Mapping[str, int]:
    shape = work.result_type.shape
    whole = work.boxes(full_box(shape))
    step = work.granularity(axis)
    middle = shape[axis] // 2 // step * step
    cut = (middle, min(middle + step, shape[axis]))
    box = tuple(cut if at == axis else (0, n) for at, n in enumerate(shape))
    part = work.boxes(box)
    found = {}
    for value in work.operands:
        full, needed = whole.get(value), part.get(value)
        pairs = enumerate(zip(full or (), needed or (), strict=True))
        axes = [at for at, (one, other) in pairs if one != other]
        if value in work.tables or not axes:
            found[value] = _WHOLE
        else:
            found[value] = axes[0] if len(axes) == 1 else _SEVERAL
    return found
