"""From what was seen to a range: min-max, percentile, entropy, mean squared error."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stages.compiler.quantization import ActivationScales, Range
from stages.quantizer.histograms import HALF, Extremes, Histogram

STEPS = 255
"""Steps between the lowest and the highest of 256 integers."""
_LEVELS = 128
_ENTROPY_STRIDE = 16
_MSE_STRIDE = 16
_UNLIKELY = 1e-6  # of outliers that fall into an empty bin: their divergence is large, not infinite


def min_max(extremes: Extremes) -> Range:
    """All that was seen, zero included."""
    return Range(extremes.low, extremes.high)


def percentile(histogram: Histogram, percent: float, scales: ActivationScales) -> Range:
    """What leaves `100 - percent` percent of the values outside: half of them on either side, as
    ONNX Runtime's percentile calibrator does; by magnitude where scales are symmetric. Zeros
    aren't counted. Linear within a bin."""
    if scales is ActivationScales.SYMMETRIC:
        size = _quantile(_magnitudes(histogram), histogram.edges[HALF:], percent / 100)
        return _within(histogram.extremes, -size, size)
    outside = (100 - percent) / 200
    low = _quantile(histogram.counts, histogram.edges, outside)
    high = _quantile(histogram.counts, histogram.edges, 1 - outside)
    return _within(histogram.extremes, low, high)


def entropy(histogram: Histogram) -> Range:
    """Clipped at the magnitude whose quantised distribution tells least from what was seen: the
    Kullback-Leibler divergence over thresholds (Migacz, "8-bit Inference with TensorRT", 2017).
    128 levels of magnitude; thresholds at every 16th of 2048 bins."""
    counts = _magnitudes(histogram).astype(np.float64)
    total = counts.sum()
    if not total:
        return min_max(histogram.extremes)
    thresholds = range(_LEVELS, HALF + 1, _ENTROPY_STRIDE)
    divergences = [_divergence(counts, threshold) for threshold in thresholds]
    best = thresholds[int(np.argmin(divergences))]
    size = float(histogram.edges[HALF + best])
    return _within(histogram.extremes, -size, size)


def mean_squared_error(histogram: Histogram, scales: ActivationScales) -> Range:
    """The range of least expected squared error: `step**2 / 12` for each value inside, the square
    of its distance for each outside. Ends at every 16th bin."""
    centres = (histogram.edges[:-1] + histogram.edges[1:]) / 2
    counts = histogram.counts.astype(np.float64)
    lows = histogram.edges[: HALF + 1 : _MSE_STRIDE]
    highs = histogram.edges[HALF::_MSE_STRIDE]
    below = np.square(np.maximum(lows[:, None] - centres, 0)) @ counts
    above = np.square(np.maximum(centres - highs[:, None], 0)) @ counts
    spans = highs[None, :] - lows[:, None]
    errors = below[:, None] + above[None, :] + np.square(spans / STEPS) / 12 * counts.sum()
    if scales is ActivationScales.SYMMETRIC:
        mirrored = lows[:, None] + highs[None, :]
        errors = np.where(np.abs(mirrored) < histogram.edges[HALF + 1] / 2, errors, np.inf)
    errors[-1, 0] = np.inf  # an empty range
    low, high = np.unravel_index(int(np.argmin(errors)), errors.shape)
    return _within(histogram.extremes, float(lows[low]), float(highs[high]))


def _magnitudes(histogram: Histogram) -> NDArray[np.int64]:
    return np.asarray(histogram.counts[HALF:] + histogram.counts[:HALF][::-1])


def _within(extremes: Extremes, low: float, high: float) -> Range:
    """No wider than what was seen, and never empty."""
    clipped = Range(max(min(low, 0.0), extremes.low), min(max(high, 0.0), extremes.high))
    return clipped if clipped.high > clipped.low else min_max(extremes)


def _quantile(counts: NDArray[np.int64], edges: NDArray[np.float64], share: float) -> float:
    total = counts.sum()
    if not total:
        return float(edges[-1] if share > 0.5 else edges[0])
    reached = np.concatenate([[0.0], np.cumsum(counts) / total])
    place = int(np.clip(np.searchsorted(reached, share), 1, counts.size))
    before, after = reached[place - 1], reached[place]
    part = (share - before) / (after - before) if after > before else 1.0
    return float(edges[place - 1] + part * (edges[place] - edges[place - 1]))


def _divergence(counts: NDArray[np.float64], threshold: int) -> float:
    """Of the clipped distribution from itself in 128 levels; empty bins stay empty."""
    seen = counts[:threshold].copy()
    outliers = counts[threshold:].sum()
    starts = (np.arange(_LEVELS) * threshold) // _LEVELS
    filled = seen > 0
    sums = np.add.reduceat(seen, starts)
    widths = np.add.reduceat(filled.astype(np.float64), starts)
    level = np.repeat(np.arange(_LEVELS), np.diff(np.append(starts, threshold)))
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.where(filled, (sums / widths)[level], 0.0)
    seen[-1] += outliers
    if not spread.any():
        return float("inf")
    p, q = seen / seen.sum(), np.maximum(spread / spread.sum(), _UNLIKELY)
    return float((p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum())
