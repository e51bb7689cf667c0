"""First fit: each buffer, in a given order, at the lowest offset that is free over its lifetime."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from stages.memory_planner.problem import Buffer
from stages.memory_planner.solution import Solution

Order = Callable[[Buffer], tuple[int, ...]]
_UNBOUNDED = 1 << 62
_Placed = tuple[int, int, int, int]
"""A buffer's life `[lower, upper)`, then its bytes `[start, end)`."""


def by_size(buffer: Buffer) -> tuple[int, ...]:
    """The largest first, then the longest-lived, then the earliest."""
    return (-buffer.size_bytes, buffer.lower - buffer.upper, buffer.lower)


def by_width(buffer: Buffer) -> tuple[int, ...]:
    """The longest-lived first, then the largest, then the earliest."""
    return (buffer.lower - buffer.upper, -buffer.size_bytes, buffer.lower)


def by_area(buffer: Buffer) -> tuple[int, ...]:
    """The largest product of size and lifetime first, then the earliest."""
    return (-buffer.area, buffer.lower)


def by_start(buffer: Buffer) -> tuple[int, ...]:
    """The earliest first, then the largest."""
    return (buffer.lower, -buffer.size_bytes)


ORDERS: tuple[Order, ...] = (by_size, by_width, by_area, by_start)


def first_fit(buffers: tuple[Buffer, ...], order: Order) -> Solution:
    """Offsets for all buffers, however high they come to lie; fixed buffers go first.

    The answer breaks the rules only where fixed buffers already do.
    """
    offsets: dict[str, int] = {}
    placed: list[_Placed] = []
    queue = sorted(buffers, key=lambda item: (item.fixed_offset_bytes is None, *order(item)))
    for buffer in queue:
        offset = buffer.fixed_offset_bytes
        if offset is None:
            offset = _lowest_gap(buffer, placed)
        offsets[buffer.name] = offset
        placed.append((buffer.lower, buffer.upper, offset, offset + buffer.size_bytes))
    return Solution({item.name: offsets[item.name] for item in buffers})


def free_gaps(
    busy: Iterable[tuple[int, int]], base: int, limit: int, alignment: int
) -> Iterator[tuple[int, int]]:
    """The gaps that busy ranges `[start, end)` leave in `[base, limit)`, the lowest first; each
    begins at a multiple of the alignment, as `base` does."""
    low = base
    for start, end in sorted(busy):
        if start > low:
            yield low, start
        if end > low:
            low = -(-end // alignment) * alignment
    if limit > low:
        yield low, limit


def _lowest_gap(buffer: Buffer, placed: list[_Placed]) -> int:
    lower, upper = buffer.lower, buffer.upper
    busy = [(low, high) for start, stop, low, high in placed if start < upper and lower < stop]
    gaps = free_gaps(busy, 0, _UNBOUNDED, buffer.alignment_bytes)
    return next(low for low, high in gaps if high - low >= buffer.size_bytes)
