"""The cache of lines against one that takes a line at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.hardware.lru import LineCache, Touched
from stages.hardware.spec import Cache


def cache(sets: int, ways: int, line_bytes: int = 64) -> Cache:
    return Cache(
        size_bytes=sets * ways * line_bytes,
        line_bytes=line_bytes,
        ways=ways,
        read_bandwidth=1_000_000_000,
        write_bandwidth=1_000_000_000,
        read_latency_ns=10,
        write_latency_ns=10,
    )


class OneByOne:
    """The textbook cache: each set a list of lines, the last one used in front."""

    def __init__(self, sets: int, ways: int) -> None:
        self.ways = ways
        self.held: list[list[int]] = [[] for _ in range(sets)]
        self.changed: set[int] = set()

    def touch(self, lines: list[int], write: bool) -> Touched:
        hits = written_back = 0
        for line in lines:
            held = self.held[line % len(self.held)]
            if line in held:
                hits += 1
                held.remove(line)
            held.insert(0, line)
            if write:
                self.changed.add(line)
            if len(held) > self.ways:
                put_out = held.pop()
                written_back += put_out in self.changed
                self.changed.discard(put_out)
        return Touched(hits, len(lines) - hits, written_back)


SPAN = st.tuples(st.integers(0, 60), st.integers(0, 40))
LINES = st.sets(st.integers(0, 100), max_size=30)


@given(
    st.integers(1, 12),
    st.integers(1, 5),
    st.lists(st.tuples(SPAN | LINES, st.booleans()), max_size=20),
)
def test_equals_one_line_at_a_time(
    sets: int, ways: int, accesses: list[tuple[tuple[int, int] | set[int], bool]]
) -> None:
    many, one = LineCache(cache(sets, ways), 1 << 20), OneByOne(sets, ways)
    for access, write in accesses:
        if isinstance(access, tuple):
            first, length = access
            found = many.touch_span(first, first + length, write)
            expected = one.touch(list(range(first, first + length)), write)
        else:
            lines = sorted(access)
            found = many.touch_lines(np.array(lines, dtype=np.int64), write)
            expected = one.touch(lines, write)
        assert found == expected


def test_by_hand() -> None:
    lines = LineCache(cache(sets=2, ways=2), 1 << 20)
    # lines 0 and 2 fill set 0, line 1 half of set 1
    assert lines.touch_span(0, 3, write=True) == Touched(0, 3, 0)
    assert lines.touch_span(0, 1, write=False) == Touched(1, 0, 0)
    # line 4 goes to set 0 and puts line 2 out, which was written
    assert lines.touch_span(4, 5, write=False) == Touched(0, 1, 1)
    assert lines.touch_span(2, 3, write=False) == Touched(0, 1, 1)  # puts out 0, written too
    assert lines.touch_span(4, 5, write=False) == Touched(1, 0, 0)


@pytest.mark.parametrize("write", [False, True])
def test_a_loop_over_one_line_more_than_fits_never_hits(write: bool) -> None:
    lines = LineCache(cache(sets=1, ways=4), 1 << 20)
    for _ in range(3):
        assert lines.touch_span(0, 5, write).hits == 0
    fitting = LineCache(cache(sets=1, ways=5), 1 << 20)
    assert [fitting.touch_span(0, 5, write).hits for _ in range(3)] == [0, 5, 5]


def test_nothing_touches_nothing() -> None:
    lines = LineCache(cache(sets=2, ways=2), 1 << 20)
    assert lines.touch_span(3, 3, write=True) == Touched(0, 0, 0)
    assert lines.touch_lines(np.array([], dtype=np.int64), write=True) == Touched(0, 0, 0)
