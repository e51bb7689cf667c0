"""Latency statistics on integers: nearest-rank percentiles, no interpolation, no rounding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Latencies of a session in nanoseconds. `mean_ns` is rounded up."""

    runs: int
    minimum_ns: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    maximum_ns: int
    mean_ns: int

    @property
    def p99_over_p50(self) -> Fraction:
        """The tail's ratio, exactly."""
        return Fraction(self.p99_ns, self.p50_ns)

    def exceeds_tail(self, limit: float) -> bool:
        """Whether P99/P50 is over the limit, compared as integers (the limit as it is printed)."""
        return self.p99_over_p50 > Fraction(str(limit))


def percentile(ordered: Sequence[int], percent: int) -> int:
    """The nearest-rank percentile: the smallest value that `percent` of all don't exceed.

    Raises:
        ValueError: no values, or a percent outside 1..100.
    """
    if not ordered or not 1 <= percent <= 100:
        raise ValueError(f"no P{percent} of {len(ordered)} values")
    return ordered[_rank(len(ordered), percent)]


def summarize(latencies_ns: Iterable[int]) -> LatencySummary:
    """Statistics of latencies in any order.

    Raises:
        ValueError: there is none, or one isn't positive.
    """
    ordered = sorted(int(latency) for latency in latencies_ns)
    if not ordered or ordered[0] <= 0:
        raise ValueError(f"latencies must be positive: {ordered[:1]}")
    return LatencySummary(
        runs=len(ordered),
        minimum_ns=ordered[0],
        p50_ns=percentile(ordered, 50),
        p90_ns=percentile(ordered, 90),
        p99_ns=percentile(ordered, 99),
        maximum_ns=ordered[-1],
        mean_ns=-(-sum(ordered) // len(ordered)),
    )


def summarize_array(latencies_ns: NDArray[np.int64]) -> LatencySummary:
    """The same for an array (int64[runs]): a soak has millions.

    Raises:
        ValueError: there is none, or one isn't positive.
    """
    if latencies_ns.size == 0 or int(latencies_ns.min()) <= 0:
        raise ValueError("latencies must be positive, and one at least")
    ordered = latencies_ns.copy()
    ordered.sort()
    count = int(ordered.size)
    return LatencySummary(
        runs=count,
        minimum_ns=int(ordered[0]),
        p50_ns=int(ordered[_rank(count, 50)]),
        p90_ns=int(ordered[_rank(count, 90)]),
        p99_ns=int(ordered[_rank(count, 99)]),
        maximum_ns=int(ordered[-1]),
        mean_ns=-(-int(ordered.sum()) // count),
    )


def _rank(count: int, percent: int) -> int:
    return -(-percent * count // 100) - 1


def ratio_text(ratio: Fraction) -> str:
    """A ratio with three decimals, rounded half up."""
    thousandths = (2000 * ratio.numerator + ratio.denominator) // (2 * ratio.denominator)
    return f"{thousandths // 1000}.{thousandths % 1000:03d}"
