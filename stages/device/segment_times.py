"""Segments in nanoseconds, and what follows from lengths of time: unions, shares of a peak."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stages.device.stalls import Segments
from stages.hardware.cost import NANOSECONDS_PER_SECOND

Times = NDArray[np.int64]


class SegmentTimes:
    """Segments in nanoseconds: ends rounded up, so lengths add up whatever the clock."""

    def __init__(self, clock_hz: int, segments: Segments) -> None:
        self.starts = nanoseconds(segments.start, clock_hz)
        self.ends = nanoseconds(segments.end, clock_hz)
        self.lengths = self.ends - self.starts
        self.total_ns = int(nanoseconds(np.array([segments.total_cycles]), clock_hz)[0])


def nanoseconds(cycles: Times, clock_hz: int) -> Times:
    """Cycles (int64) as nanoseconds, rounded up; exact for every run shorter than centuries."""
    seconds, rest = np.divmod(cycles, clock_hz)
    parts: Times = seconds * NANOSECONDS_PER_SECOND - (-rest * NANOSECONDS_PER_SECOND // clock_hz)
    return parts


def covered(starts: Times, ends: Times) -> int:
    """Length of the union of half-open intervals (int64[n] each), in their own unit."""
    if not starts.size:
        return 0
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reached = np.concatenate((starts[:1], np.maximum.accumulate(ends)[:-1]))
    return int(np.maximum(ends - np.maximum(starts, reached), 0).sum())


def over_peak(least_cycles: int, cycles: int) -> float:
    """The share of a peak that was achieved: the least cycles over those that it took."""
    return round(least_cycles / cycles, 4) if cycles else 0.0


def miss_rate(hit_bytes: int | None, miss_bytes: int | None) -> float | None:
    """The missed share of what was looked up in a cache: 0 where nothing was, None without one."""
    if hit_bytes is None or miss_bytes is None:
        return None
    return round(miss_bytes / max(1, hit_bytes + miss_bytes), 4)
