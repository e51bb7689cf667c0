"""Elements at regular places of a memory, and which elements of a value they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Axis = tuple[int, int, int]
"""How many, bytes from one to the next, elements of the value from one to the next."""
Axes = tuple[Axis, ...]
Key = str | tuple[str, int, int, int]
"""A value's name; or an operator's, and what of its contraction is summed up: `[start, stop)` of
an extent."""


@dataclass(frozen=True, slots=True)
class Several:
    """A value, some elements of which are equal: each may as well be one of those `shifts` further
    on."""

    key: Key
    shifts: tuple[int, ...]


Label = Key | Several | None
"""What elements are of; None where that isn't known, or where a rule has spoken of it already."""


def choices(label: Label, index: int) -> list[tuple[Key, int]]:
    """The elements that one with this label may be."""
    if label is None:
        return []
    if isinstance(label, Several):
        return [(label.key, index), *((label.key, index + shift) for shift in label.shifts)]
    return [(label, index)]


@dataclass(frozen=True, slots=True)
class Fragment:
    """Elements of one value: for every index of `axes`, element `index + sum(i * elements)` lies at
    `start + sum(i * bytes)`.

    Elements are counted as they lie when the whole value is dense in its layout. Axes go from the
    widest step in bytes to the narrowest, and each step is wider than all that the later axes
    reach.
    """

    start: int
    stop: int
    item_bytes: int
    value: Label
    index: int
    axes: Axes

    @property
    def origin(self) -> int | None:
        """Where element 0 would lie, if all of the value lay as densely as these do."""
        for _, step, elements in self.axes:
            if step != elements * self.item_bytes:
                return None
        return self.start - self.index * self.item_bytes


def fragment(start: int, item_bytes: int, value: Label, index: int, axes: Axes) -> Fragment:
    """A fragment of these axes, in their normal form."""
    return Fragment(start, start + reach(axes, item_bytes), item_bytes, value, index, axes)


def reach(axes: Axes, item_bytes: int) -> int:
    """Bytes from the first to behind the last element."""
    return sum([(count - 1) * step for count, step, _ in axes]) + item_bytes


def normal(axes: Iterable[Axis]) -> Axes:
    """Axes in their normal form: none of one element, neighbours joined, widest first."""
    kept = [axis for axis in axes if axis[0] != 1]
    if len(kept) < 2:
        return tuple(kept)
    kept.sort(key=_bytes, reverse=True)
    joined = [kept[-1]]
    for count, step, elements in reversed(kept[:-1]):
        inner, narrow, few = joined[-1]
        if step == inner * narrow and elements == inner * few:
            joined[-1] = (count * inner, narrow, few)
        else:
            joined.append((count, step, elements))
    return tuple(reversed(joined))


def _bytes(axis: Axis) -> int:
    return axis[1]


def is_nested(axes: Axes, item_bytes: int) -> bool:
    """Whether each step is wider than all that the later axes reach."""
    span = item_bytes
    for count, step, _ in reversed(axes):
        if step < span:
            return False
        span += (count - 1) * step
    return True


Part = tuple[int, int, int]
"""A part of an axis: how many, indices of the axis from one to the next, elements likewise."""


def coordinates(held: Fragment, address: int) -> list[int] | None:
    """The indices of the element at an address; None where none lies there."""
    rest = address - held.start
    if rest < 0:
        return None
    found = []
    for count, step, _ in held.axes:
        place = rest // step
        if place >= count:
            place = count - 1
        rest -= place * step
        found.append(place)
    return None if rest else found


def locate(
    held: Fragment, address: int, steps: Sequence[tuple[int, int]]
) -> tuple[int, list[list[Part]]] | None:
    """The element of the value at an address, and how elements go on along each of `steps` (how
    many, bytes from one to the next); None where not all of them are of this fragment, or where
    they don't go on regularly."""
    places = coordinates(held, address)
    if places is None:
        return None
    axes = held.axes
    index = held.index
    for place, axis in zip(places, axes, strict=True):
        index += place * axis[2]
    far = list(places)
    found = []
    for count, step in steps:
        parts = _along(axes, far, count, step)
        if parts is None:
            return None
        found.append(parts)
    return index, found


def _along(axes: Axes, far: list[int], count: int, step: int) -> list[Part] | None:
    """How elements go on along one axis of a region; `far` is how far along each axis of the
    fragment the region reaches, and is moved on."""
    if count == 1:
        return []
    if step == 0:
        return [(count, 1, 0)]
    for place, (held, narrow, elements) in enumerate(axes):
        if narrow > step:
            continue
        times, rest = divmod(step, narrow)
        if rest:
            return None
        if far[place] + (count - 1) * times < held:
            far[place] += (count - 1) * times
            return [(count, 1, times * elements)]
        joins = place > 0 and axes[place - 1][1] == held * narrow
        if times != 1 or far[place] or count % held or not joins:
            return None
        far[place] = held - 1
        outer = _along(axes, far, count // held, held * narrow)
        if outer is None:
            return None
        return [*((many, by * held, over) for many, by, over in outer), (held, 1, elements)]
    return None


def clipped(held: Fragment, low: int, high: int) -> list[Fragment]:
    """What of a fragment lies in the bytes `[low, high)`; elements that an edge cuts are left
    out."""
    if low <= held.start and held.stop <= high:
        return [held]
    if held.stop <= low or high <= held.start:
        return []
    if not held.axes:
        return []
    (count, step, elements), inner = held.axes[0], held.axes[1:]
    span = reach(inner, held.item_bytes)
    first = max(0, -(-(low - held.start) // step))
    last = min(count, (high - held.start - span) // step + 1)
    found = []
    if first < last:
        axes = ((last - first, step, elements), *inner) if last - first > 1 else inner
        start, index = held.start + first * step, held.index + first * elements
        found.append(fragment(start, held.item_bytes, held.value, index, axes))
    edges = {first - 1, last} if first <= last else {last, first - 1}
    for place in sorted(edges):
        if inner and 0 <= place < count:
            start, index = held.start + place * step, held.index + place * elements
            row = fragment(start, held.item_bytes, held.value, index, inner)
            found += clipped(row, low, high)
    return found


def merged(one: Fragment, other: Fragment) -> Fragment | None:
    """Two fragments as one; None where they aren't one."""
    if one.value != other.value or one.item_bytes != other.item_bytes:
        return None
    if one.start > other.start:
        one, other = other, one
    step, elements = other.start - one.start, other.index - one.index
    if not step:
        return None
    for place, (count, narrow, few) in enumerate(one.axes):
        if count * narrow == step and count * few == elements:
            rest = (*one.axes[:place], *one.axes[place + 1 :])
            more = _count_beside(other.axes, rest, narrow, few)
            return _widened(one, rest, (count + more, narrow, few)) if more else None
    if step != elements * one.item_bytes:
        return None
    more = _count_beside(other.axes, one.axes, step, elements)
    return _widened(one, one.axes, (1 + more, step, elements)) if more else None


def _count_beside(axes: Axes, rest: Axes, step: int, elements: int) -> int:
    """How many along an axis of these steps, where the other axes are `rest`; 0 where they
    aren't."""
    if axes == rest:
        return 1
    for place, axis in enumerate(axes):
        if axis[1:] == (step, elements) and (*axes[:place], *axes[place + 1 :]) == rest:
            return axis[0]
    return 0


def _widened(one: Fragment, rest: Axes, axis: Axis) -> Fragment | None:
    axes = normal((*rest, axis))
    if not is_nested(axes, one.item_bytes):
        return None
    return fragment(one.start, one.item_bytes, one.value, one.index, axes)


def without(
    held: Fragment, axes: Sequence[Axis], lows: Sequence[int], highs: Sequence[int]
) -> list[Fragment]:
    """What is left of a fragment of these axes, not in their normal form, without the box
    `[lows, highs)` of their indices."""
    found = []
    inside = list(axes)
    start, index = held.start, held.index
    for place, (count, step, elements) in enumerate(axes):
        for first, last in ((0, lows[place]), (highs[place], count)):
            if first < last:
                parts = [*inside[:place], (last - first, step, elements), *axes[place + 1 :]]
                begin, element = start + first * step, index + first * elements
                found.append(fragment(begin, held.item_bytes, held.value, element, normal(parts)))
        inside[place] = (highs[place] - lows[place], step, elements)
        start, index = start + lows[place] * step, index + lows[place] * elements
    return found
