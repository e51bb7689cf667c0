"""A set-associative cache with least-recently-used replacement, many lines at a time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.hardware.spec import Cache

Lines = NDArray[np.int64]
Columns = NDArray[np.unsignedinteger[Any]]
_SMALL_TAG = 2**30


@dataclass(frozen=True, slots=True)
class Touched:
    """What an access found: lines in the cache, lines not in it, and changed lines that it put
    out and that go to memory."""

    hits: int
    misses: int
    written_back: int


UNTOUCHED = Touched(0, 0, 0)


class LineCache:
    """The lines that a cache holds, of a memory of `memory_bytes`.

    Each set is a column: its lines from the most to the least recently used, each as twice its
    tag, plus one where it was changed. An access to many lines moves the columns of all that
    share a tag at once, since those lie in different sets.
    """

    def __init__(self, cache: Cache, memory_bytes: int) -> None:
        self.sets = cache.size_bytes // (cache.line_bytes * cache.ways)
        tags = memory_bytes // (cache.line_bytes * self.sets) + 1
        dtype = np.uint32 if tags < _SMALL_TAG else np.uint64
        empty = np.iinfo(dtype).max - 1  # beyond every tag, and not changed
        self._held: Columns = np.full((cache.ways, self.sets), empty, dtype=dtype)
        self._depths = np.arange(cache.ways, dtype=np.int32)[:, None]

    def snapshot(self) -> bytes:
        """All that the cache holds, to compare."""
        return self._held.tobytes()

    def touch_span(self, first: int, stop: int, write: bool) -> Touched:
        """Access the lines [first, stop) in order."""
        hits = written = 0
        line = first
        while line < stop:
            tag, place = divmod(line, self.sets)
            following = min((tag + 1) * self.sets, stop)
            # A view: what moves in it moves in the cache.
            found, put_out = self._move(self._held[:, place : place + following - line], tag, write)
            hits += found
            written += put_out
            line = following
        return Touched(hits, stop - first - hits, written)

    def touch_lines(self, lines: Lines, write: bool) -> Touched:
        """Access these lines (int64, ascending, each once) in order."""
        if not len(lines):
            return UNTOUCHED
        hits = written = 0
        tags = lines // self.sets
        places = lines - tags * self.sets
        cuts = np.flatnonzero(tags[1:] != tags[:-1]) + 1
        for start, stop in pairwise([0, *cuts.tolist(), len(lines)]):
            columns = places[start:stop]
            held = self._held[:, columns]
            found, put_out = self._move(held, int(tags[start]), write)
            self._held[:, columns] = held
            hits += found
            written += put_out
        return Touched(hits, len(lines) - hits, written)

    def _move(self, held: Columns, tag: int, write: bool) -> tuple[int, int]:
        """Bring a tag to the front of every column, from where it is or from memory: how many
        columns had it, and how many changed lines were put out."""
        clean = held.dtype.type(2 * tag)
        same = (held ^ clean) < 2
        hits = int(np.count_nonzero(same))
        front = clean + held.dtype.type(write)
        if hits == 0:
            put_out = int(np.count_nonzero(held[-1] & 1))
            held[1:] = held[:-1]
            held[0] = front
            return 0, put_out
        count = held.shape[1]
        depth = same.argmax(axis=0)
        found = same[0] | (depth > 0)
        changed = held[depth, np.arange(count)] & 1
        put_out = 0
        if hits < count:
            missed = ~found
            put_out = int(np.count_nonzero(held[-1, missed] & 1))
            depth[missed] = len(held) - 1
            changed[missed] = 0
        deepest = int(depth.max())
        if deepest:
            moves = self._depths[1 : deepest + 1] <= depth
            np.copyto(held[1 : deepest + 1], held[:deepest].copy(), where=moves)
        held[0] = front | changed
        return hits, put_out
