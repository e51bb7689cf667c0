"""What a buffer holds: which elements of which values, since it was born."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from stages.plan.rules.placement.lattice import (
    Axis,
    Fragment,
    Key,
    Label,
    clipped,
    coordinates,
    fragment,
    locate,
    merged,
    normal,
    without,
)

_PIECES = 20_000
"""Pieces of one region after which it isn't looked at any further, and counts as unknown."""
_TRIES = 6  # neighbours with which a new fragment may be one
_START = attrgetter("start")
Step = tuple[int, int]


class TooManyPiecesError(Exception):
    """A region is made of more pieces than are looked at."""


@dataclass(frozen=True, slots=True)
class Found:
    """A part of a region that is of one fragment: where it begins along each axis of the region,
    and which elements it holds."""

    begins: tuple[int, ...]
    value: Label
    index: int
    axes: tuple[tuple[int, int, int, int], ...]
    """Of the region, how many, indices of the region's axis and elements from one to the next."""


@dataclass(slots=True)
class Holding:
    """The fragments of one buffer.

    Where all that was ever written to it are parts of one value, each where that value's first
    element lies at `origin`, `plan-unwritten` alone says that a region is wholly written, and no
    part is looked at: `whole` is that value, and `parts` are kept for when that ends.
    """

    base: int = 0
    fragments: list[Fragment] = field(default_factory=list)
    parts: list[Fragment] = field(default_factory=list)
    is_new: bool = True
    whole: Key | None = None
    origin: int = 0
    item_bytes: int = 0
    longest: int = 0

    def put(self, new: Fragment) -> None:
        """Something is written; what lay there is gone."""
        if self.is_new:
            origin = new.origin
            self.is_new = False
            if origin is not None and isinstance(new.value, str | tuple):
                self.whole, self.origin, self.item_bytes = new.value, origin, new.item_bytes
        if self.whole is not None:
            same = self.whole == new.value and self.item_bytes == new.item_bytes
            if same and new.origin == self.origin:
                self.parts.append(new)
                return
            self._divide()
        self._forget(new)
        self._add(new)

    def _divide(self) -> None:
        """From now on each part counts for itself."""
        self.whole, self.is_new = None, False
        for part in self.parts:
            self._add(part)
        self.parts = []

    def load(self, items: Sequence[Fragment]) -> None:
        """Fragments that lie beside each other from the start on."""
        self.fragments = sorted([*self.fragments, *items], key=_START)
        self.longest = max((item.stop - item.start for item in self.fragments), default=0)
        self.whole, self.is_new = None, False

    def erase(self, start: int, item_bytes: int, steps: Sequence[Step]) -> None:
        """Something unknown is written."""
        axes = normal((count, step, 0) for count, step in steps)
        self._divide()
        self._forget(fragment(start, item_bytes, None, 0, axes))

    def _add(self, new: Fragment) -> None:
        row = self.fragments
        place = bisect_left(row, new.start, key=_START)
        low = max(0, place - _TRIES)
        for other in range(min(len(row), place + 2) - 1, low - 1, -1):
            joined = merged(row[other], new)
            if joined is not None:
                del row[other]
                self._add(joined)
                return
        row.insert(place, new)
        self.longest = max(self.longest, new.stop - new.start)

    def _forget(self, new: Fragment) -> None:
        for held in list(self.between(new.start, new.stop)):
            left = _left(held, new, self.base)
            if left != [held]:
                self.fragments.remove(held)
                for item in left:
                    insort(self.fragments, item, key=_START)

    def between(self, start: int, stop: int) -> list[Fragment]:
        """The fragments whose bounding ranges meet `[start, stop)`."""
        row = self.fragments
        if len(row) == 1:
            return list(row) if row[0].start < stop and start < row[0].stop else []
        first = bisect_left(row, start - self.longest, key=_START)
        last = bisect_left(row, stop, key=_START)
        return [held for held in row[first:last] if held.stop > start]

    def at(self, address: int) -> tuple[Label, int] | None:
        """The value and the element at an address; None where nothing is known to lie there."""
        if self.whole is not None:
            index, rest = divmod(address - self.origin, self.item_bytes)
            return None if rest else (self.whole, index)
        for held in self.between(address, address + 1):
            places = coordinates(held, address)
            if places is not None:
                index = held.index
                for place, axis in zip(places, held.axes, strict=True):
                    index += place * axis[2]
                return held.value, index
        return None

    def pieces(self, address: int, steps: Sequence[Step], item_bytes: int) -> Iterator[Found]:
        """What a region holds, `steps` being how many and the bytes from one to the next along each
        axis; parts of which nothing is known are left out, and elements of another size.

        Raises:
            TooManyPiecesError: it is too scattered.
        """
        todo = [(address, (0,) * len(steps), [count for count, _ in steps])]
        for _ in range(_PIECES):
            if not todo:
                return
            place, begins, counts = todo.pop()
            asked = [(count, step) for count, (_, step) in zip(counts, steps, strict=True)]
            found = self._one(place, begins, asked, item_bytes)
            if found is not None:
                yield found
                continue
            wide, taken = self._first_part(place, asked)
            if not taken:
                continue
            count, step = asked[wide]
            moved = (*begins[:wide], begins[wide] + taken, *begins[wide + 1 :])
            rest = [*counts[:wide], count - taken, *counts[wide + 1 :]]
            todo.append((place + taken * step, moved, rest))
            todo.append((place, begins, [*counts[:wide], taken, *counts[wide + 1 :]]))
        raise TooManyPiecesError

    def _one(
        self, address: int, begins: tuple[int, ...], asked: Sequence[Step], item_bytes: int
    ) -> Found | None:
        """A part of a region, if all of it is of one fragment."""
        for held in self.between(address, address + 1):
            found = locate(held, address, asked) if held.item_bytes == item_bytes else None
            if found is not None:
                return _found(begins, held, found)
        return None

    def _first_part(self, address: int, asked: list[Step]) -> tuple[int, int]:
        """The axis to cut and how many of it are the first part: the widest axis along which so
        many are of one fragment, else the widest, after the first of it; 0 for one element."""
        axes = [axis for axis, (count, _) in enumerate(asked) if count > 1]
        if not axes:
            return 0, 0
        axes.sort(key=lambda axis: -asked[axis][1])
        count, step = asked[axes[0]]
        if step == 0:  # one element again and again, and it isn't known
            return axes[0], count - 1
        for axis in axes:
            taken = self._fitting(address, asked, axis)
            if taken:
                return axis, taken
        return axes[0], 1

    def _fitting(self, address: int, asked: list[Step], wide: int) -> int:
        """How many along an axis are of the fragment at an address, all of the others; 0 where
        that isn't more than one."""
        count, step = asked[wide]
        if step == 0:
            return 0
        inner = sum((many - 1) * by for axis, (many, by) in enumerate(asked) if axis != wide)
        for held in self.between(address, address + 1):
            places = coordinates(held, address)
            if places is None:
                continue
            most = min(count - 1, (held.stop - address - inner - 1) // step + 1)
            tries = [most]
            if held.axes:
                row = held.axes[-1][0]
                tries += [row - places[-1], most // row * row]
            for many in sorted(tries, reverse=True):
                tried = [*asked[:wide], (many, step), *asked[wide + 1 :]]
                if 1 < many < count and locate(held, address, tried) is not None:
                    return many
        return 0


def _found(begins: tuple[int, ...], held: Fragment, found: tuple[int, list[list[Axis]]]) -> Found:
    index, along = found
    axes = tuple(
        [(axis, count, by, over) for axis, parts in enumerate(along) for count, by, over in parts]
    )
    return Found(begins, held.value, index, axes)


def _left(held: Fragment, new: Fragment, base: int) -> list[Fragment]:
    """What is left of a fragment when another is written over it. Where that can't be told
    exactly, nothing is."""
    if held.stop <= new.start or new.stop <= held.start:
        return [held]
    size = new.item_bytes
    if not new.axes or (len(new.axes) == 1 and new.axes[0][1] == size):
        if new.start <= held.start and held.stop <= new.stop:
            return []
        return [*clipped(held, held.start, new.start), *clipped(held, new.stop, held.stop)]
    if held.item_bytes != size:
        return []
    return _beside(held, new, base)


def _beside(held: Fragment, new: Fragment, base: int) -> list[Fragment]:
    """What is left, where both are boxes of one grid that begins at `base`."""
    size = held.item_bytes
    widths = sorted({by for _, by, _ in (*held.axes, *new.axes)} | {size}, reverse=True)
    mine, other = _split(held, widths), _split(new, widths)
    if mine is None or other is None:
        return []
    kept, places = mine
    theirs, _ = other
    here, there = _corner(held.start - base, widths), _corner(new.start - base, widths)
    lows, highs = [], []
    for place, (begin, count, at, many) in enumerate(zip(here, kept, there, theirs, strict=True)):
        row = widths[place - 1] if place else max(begin + count, at + many) * widths[0]
        if max(begin + count, at + many) * widths[place] > row:
            return []
        low, high = max(begin, at), min(begin + count, at + many)
        if low >= high:
            return [held]
        lows.append(low - begin)
        highs.append(high - begin)
    return without(held, places, lows, highs)


def _split(held: Fragment, widths: Sequence[int]) -> tuple[list[int], list[Axis]] | None:
    """How many along each width of a grid, and the axes, each cut at the widths between; None
    where it isn't a box of the grid."""
    counts, axes = [1] * len(widths), [(1, by, 0) for by in widths]
    for count, step, elements in held.axes:
        place = widths.index(step)
        while count > 1:
            times = widths[place - 1] // step if place else count
            inner = count
            if place and count * widths[place] > widths[place - 1]:
                if widths[place - 1] % widths[place]:
                    return None
                inner = widths[place - 1] // widths[place]
                if count % inner:
                    return None
            if counts[place] != 1 or times < 1:
                return None
            counts[place] = inner
            axes[place] = (inner, widths[place], elements * (widths[place] // step))
            count //= inner
            place -= 1
    return counts, axes


def _corner(offset: int, widths: Sequence[int]) -> list[int]:
    """The indices of a place on a grid."""
    found = []
    for by in widths:
        place, offset = divmod(offset, by)
        found.append(place)
    return found
