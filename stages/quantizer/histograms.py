"""What values a tensor takes over a calibration set: its extremes, and how often which occur."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.normalizer.sample_files import Sample
from stages.tensors import Array

HALF = 2048
"""Bins on either side of zero (TensorRT's and ONNX Runtime's entropy calibrators use as many)."""

Run = Callable[[Sample], Mapping[str, Array]]


@dataclass(frozen=True, slots=True)
class Extremes:
    """The least and the largest value that was seen, zero among them."""

    low: float
    high: float
    is_finite: bool

    @property
    def magnitude(self) -> float:
        """The largest absolute value."""
        return max(-self.low, self.high)


@dataclass(frozen=True, slots=True)
class Histogram:
    """`counts[2 * HALF]` of equal bins over [-magnitude, magnitude], exact zeros left out: int8
    holds those without error whatever the range."""

    extremes: Extremes
    counts: NDArray[np.int64]

    @property
    def edges(self) -> NDArray[np.float64]:
        """The bins' 2 * HALF + 1 edges."""
        return np.linspace(-self.extremes.magnitude, self.extremes.magnitude, 2 * HALF + 1)


def measure_extremes(
    run: Run, samples: Iterable[Sample], names: Iterable[str]
) -> dict[str, Extremes]:
    """The extremes of each tensor over all samples."""
    wanted = list(names)
    seen: dict[str, Extremes] = {}
    for sample in samples:
        values = run(sample)
        for name in wanted:
            if name in values:
                found = _extremes(values[name])
                seen[name] = _joined(seen[name], found) if name in seen else found
    return seen


def measure_histograms(
    run: Run, samples: Iterable[Sample], extremes: Mapping[str, Extremes]
) -> dict[str, Histogram]:
    """A histogram of each tensor over all samples; counts add up, so their order is no matter."""
    counts = {name: np.zeros(2 * HALF, np.int64) for name in extremes}
    for sample in samples:
        values = run(sample)
        for name, found in extremes.items():
            counts[name] += _counts(values[name], found.magnitude)
    return {name: Histogram(found, counts[name]) for name, found in extremes.items()}


def _extremes(array: Array) -> Extremes:
    if not array.size:
        return Extremes(0.0, 0.0, True)
    low, high = float(array.min()), float(array.max())  # either is NaN where an element is
    if not np.isfinite(low) or not np.isfinite(high):
        return Extremes(0.0, 0.0, False)
    return Extremes(min(low, 0.0), max(high, 0.0), True)


def _joined(one: Extremes, other: Extremes) -> Extremes:
    return Extremes(
        min(one.low, other.low), max(one.high, other.high), one.is_finite and other.is_finite
    )


def _counts(array: Array, magnitude: float) -> NDArray[np.int64]:
    values = np.asarray(array, np.float64).reshape(-1)
    values = values[values != 0]
    bins = np.floor(values * (HALF / magnitude)).astype(np.int64) + HALF
    return np.bincount(np.clip(bins, 0, 2 * HALF - 1), minlength=2 * HALF)
