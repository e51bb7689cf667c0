"""A set-associative cache with least-recently-used replacement, many lines at a time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stages.hardware.spec import Cache

Lines = NDArray[np.int64]
_EMPTY = -1


@dataclass(frozen=True, slots=True)
class Touched:
    """What an access found: lines in the cache, lines not in it, and changed lines that it put
    out and that go to memory."""

    hits: int
    misses: int
    written_back: int


UNTOUCHED = Touched(0, 0, 0)


class LineCache:
    """The lines that a cache holds.

    Each set is a column: its lines' tags from the most to the least recently used. An access to
    many lines changes the columns of all that share a tag at once, since those lie in different
    sets.
    """

    def __init__(self, cache: Cache) -> None:
        self.sets = cache.size_bytes // (cache.line_bytes * cache.ways)
        self._tags = np.full((cache.ways, self.sets), _EMPTY, dtype=np.int64)
        self._changed = np.zeros((cache.ways, self.sets), dtype=bool)
        self._depths = np.arange(cache.ways)[:, None]

    def touch_span(self, first: int, stop: int, write: bool) -> Touched:
        """Access the lines [first, stop) in order."""
        hits = written = 0
        line = first
        while line < stop:
            tag, place = divmod(line, self.sets)
            following = min((tag + 1) * self.sets, stop)
            part = slice(place, place + following - line)
            found, put_out = self._touch(tag, part, write)
            hits += found
            written += put_out
            line = following
        return Touched(hits, stop - first - hits, written)

    def touch_lines(self, lines: Lines, write: bool) -> Touched:
        """Access these lines (int64, ascending, each once) in order."""
        hits = written = 0
        tags = lines // self.sets
        cuts = np.flatnonzero(tags[1:] != tags[:-1]) + 1
        bounds = [0, *cuts.tolist(), len(lines)]
        for start, stop in pairwise(bounds):
            tag = int(tags[start])
            part = lines[start:stop] - tag * self.sets
            found, put_out = self._touch(tag, part, write)
            hits += found
            written += put_out
        return Touched(hits, len(lines) - hits, written)

    def _touch(self, tag: int, part: slice | Lines, write: bool) -> tuple[int, int]:
        """Hits, and changed lines put out, of one line in each of these sets."""
        tags, changed = self._tags[:, part], self._changed[:, part]
        same = tags == tag
        hits = int(np.count_nonzero(same))
        if hits == 0:
            put_out = int(np.count_nonzero(changed[-1]))
            tags[1:], changed[1:] = tags[:-1].copy(), changed[:-1].copy()
            tags[0], changed[0] = tag, write
        else:
            put_out = self._move(tags, changed, same, write, tag)
        if not isinstance(part, slice):  # a view of a slice is the cache itself
            self._tags[:, part], self._changed[:, part] = tags, changed
        return hits, put_out

    def _move(
        self,
        tags: NDArray[np.int64],
        changed: NDArray[np.bool_],
        same: NDArray[np.bool_],
        write: bool,
        tag: int,
    ) -> int:
        """Bring a tag to the front of every column, from where it is or from memory; the number
        of changed lines put out."""
        found = same.any(axis=0)
        depth = np.where(found, same.argmax(axis=0), len(tags) - 1)
        was_changed = (same & changed).any(axis=0)
        put_out = int(np.count_nonzero(changed[-1] & ~found))
        untouched = self._depths > depth
        tags[1:] = np.where(untouched[1:], tags[1:], tags[:-1])
        tags[0] = tag
        changed[1:] = np.where(untouched[1:], changed[1:], changed[:-1])
        changed[0] = was_changed | write
        return put_out
