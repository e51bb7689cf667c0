"""Chains: neighbouring groups through which a stripe of the last result can be followed backwards.

A chain is legal where each result that another of its groups reads is cut along one axis by a
stripe of the last result. A result whose readers all stand in the chain needs no place of its own:
it is held in a rolling buffer, row by row (as in Arm Vela's cascades).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import lcm

from stages.compiler.draft import Draft
from stages.compiler.tiling.footprint import Span
from stages.compiler.tiling.workload import Boxes, Workload
from stages.tensors import Box, full_box

_AXES = (2, 1, 0, 3)  # rows of images and of attention first; then rows of sequences
_WHOLE = -1
_SEVERAL = -2


@dataclass(frozen=True, slots=True)
class Site:
    """The tiled groups of a draft, and who reads what.

    `works`: by group number. `readers`: the tiled groups that read a value. `leaving`: values that
    others read too, the caller among them.
    """

    works: Mapping[int, Workload]
    readers: Mapping[str, tuple[int, ...]]
    leaving: frozenset[str]
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

    def is_held(self, value: str, stop: int) -> bool:
        """Whether a value passes within a chain alone that ends before group `stop`."""
        readers = self.readers.get(value, ())
        return value not in self.leaving and all(number < stop for number in readers)


@dataclass(frozen=True, slots=True)
class Chain:
    """The groups `[start, stop)` as a chain. `axes`: of each group's result, the axis along which
    it is cut. `held`: results that pass within the chain alone; `inner`: all that do. `step`: what
    all cuts are multiples of. `known`: boxes that were asked for."""

    start: int
    stop: int
    works: tuple[Workload, ...]
    axes: tuple[int, ...]
    held: tuple[str, ...]
    inner: frozenset[str]
    step: int = 1
    known: dict[tuple[int, Span], Boxes] = field(default_factory=dict, compare=False)

    @property
    def extent(self) -> int:
        """The extent of the last result along its axis."""
        return self.works[-1].result_type.shape[self.axes[-1]]

    def place_of(self, value: str) -> int:
        """The place in the chain of the group whose result a value is."""
        return next(at for at, work in enumerate(self.works) if work.result == value)

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
    leaving = set(draft.graph.outputs)
    for number, group in enumerate(draft.recipe.groups):
        if number not in works:
            leaving.update(value for name in group.operators for value in by_name[name].operands)
    return Site(
        works,
        {value: tuple(numbers) for value, numbers in readers.items()},
        frozenset(leaving),
    )


def axes_of(site: Site, last: int) -> Iterator[int]:
    """The axes along which the result of a group may be cut in stripes."""
    rank = site.works[last].result_type.rank
    for axis in _AXES:
        if axis < rank and site.can_cut(last, axis):
            yield axis


def chains_ending(site: Site, last: int, axis: int, longest: int) -> Iterator[Chain]:
    """The chains that end with a group, from two groups on, each one group longer."""
    axes = {last: axis}
    for first in range(last - 1, last - longest, -1):
        found = _axis_of(site, first, axes)
        if found is None:
            return
        axes[first] = found
        yield _chain(site, first, last + 1, axes)


def _axis_of(site: Site, first: int, axes: Mapping[int, int]) -> int | None:
    """The axis along which the chain's readers of a group cut it; None where they can't."""
    if first not in site.works:
        return None
    result = site.works[first].result
    readers = [number for number in site.readers.get(result, ()) if number in axes]
    cuts = {site.cut_axes(reader, axes[reader])[result] for reader in readers}
    if len(cuts) != 1:
        return None
    (cut,) = cuts
    if cut < 0 or not site.can_cut(first, cut):
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
    works = tuple(site.works[number] for number in range(start, stop))
    results = [work.result for work in works[:-1]]
    held = tuple(value for value in results if site.is_held(value, stop))
    return Chain(
        start,
        stop,
        works,
        tuple(axes[number] for number in range(start, stop)),
        held,
        frozenset(results),
        lcm(*(site.step(number, axes[number]) for number in range(start, stop))),
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
