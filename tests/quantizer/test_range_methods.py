"""How a range is made of what was seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.compiler.quantization import ActivationScales, Range
from stages.quantizer.histograms import (
    HALF,
    Histogram,
    measure_extremes,
    measure_histograms,
)
from stages.quantizer.range_methods import entropy, mean_squared_error, min_max, percentile

ASYMMETRIC, SYMMETRIC = ActivationScales.ASYMMETRIC, ActivationScales.SYMMETRIC
values = st.lists(st.floats(-100, 100, allow_nan=False, width=32), min_size=1, max_size=60).filter(
    lambda items: any(items)
)


def histogram(*arrays: np.ndarray) -> Histogram:
    taken = [{"x": np.asarray(array, np.float32)} for array in arrays]
    extremes = measure_extremes(lambda sample: sample, taken, ["x"])
    return measure_histograms(lambda sample: sample, taken, extremes)["x"]


def quantised_error(array: np.ndarray, limits: Range) -> float:
    """The mean squared error of int8 in a range, by doing it."""
    step = (limits.high - limits.low) / 255
    stored = np.clip(np.rint((array - limits.low) / step), 0, 255)
    return float(np.square(stored * step + limits.low - array).mean())


def test_a_histogram_counts_what_numpy_counts() -> None:
    array = np.random.default_rng(1).standard_normal(5000).astype(np.float32)
    found = histogram(array)
    assert found.extremes.low == array.min()
    assert found.extremes.high == array.max()
    expected, edges = np.histogram(array.astype(np.float64), found.edges)
    assert found.edges == pytest.approx(edges)
    assert np.abs(found.counts - expected).sum() <= 2  # the largest lies on the last edge


@settings(max_examples=20)
@given(values, st.integers(0, 60))
def test_how_values_are_split_into_samples_is_no_matter(items: list[float], cut: int) -> None:
    array = np.array(items, np.float32)
    one = histogram(array)
    two = histogram(array[cut:], array[:cut])
    assert one.extremes == two.extremes
    assert np.array_equal(one.counts, two.counts)


def test_exact_zeros_are_no_bin() -> None:
    assert histogram(np.array([0.0, 0.0, 0.0, 2.0])).counts.sum() == 1


@settings(max_examples=15)
@given(values, st.sampled_from([ASYMMETRIC, SYMMETRIC]))
def test_every_method_stays_within_what_was_seen_and_holds_zero(
    items: list[float], scales: ActivationScales
) -> None:
    found = histogram(np.array(items, np.float32))
    for limits in (
        min_max(found.extremes),
        percentile(found, 99, scales),
        entropy(found),
        mean_squared_error(found, scales),
    ):
        assert found.extremes.low <= limits.low <= 0 <= limits.high <= found.extremes.high
        assert limits.low < limits.high


@pytest.mark.parametrize("percent", [99.9, 99.0, 90.0])
def test_a_percentile_is_a_quantile_on_either_side(percent: float) -> None:
    array = np.random.default_rng(2).gumbel(size=200_000).astype(np.float32)
    limits = percentile(histogram(array), percent, ASYMMETRIC)
    outside = (100 - percent) / 200
    bin_width = float(np.abs(array).max()) / HALF
    assert limits.low == pytest.approx(np.quantile(array, outside), abs=bin_width)
    assert limits.high == pytest.approx(np.quantile(array, 1 - outside), abs=bin_width)


def test_a_symmetric_percentile_is_one_of_magnitudes() -> None:
    array = np.random.default_rng(2).gumbel(size=200_000).astype(np.float32)
    limits = percentile(histogram(array), 95, SYMMETRIC)
    bin_width = float(np.abs(array).max()) / HALF
    assert limits.high == pytest.approx(np.quantile(np.abs(array), 0.95), abs=bin_width)


def test_all_of_them_is_everything() -> None:
    found = histogram(np.array([-3.0, 1.0, 2.0]))
    assert percentile(found, 100, ASYMMETRIC) == min_max(found.extremes) == Range(-3.0, 2.0)


@pytest.mark.parametrize("seed", range(4))
def test_the_least_squared_error_is_the_least_by_trial(seed: int) -> None:
    random = np.random.default_rng(seed)
    array = np.concatenate([random.standard_normal(20_000), random.standard_normal(20) * 40])
    array = array if seed % 2 else np.maximum(array, 0)
    array = array.astype(np.float32)
    found = mean_squared_error(histogram(array), ASYMMETRIC)
    tried = [
        quantised_error(array[array != 0], Range(array.min() * low, array.max() * high))
        for low in np.linspace(0.05, 1, 40)
        for high in np.linspace(0.05, 1, 40)
    ]
    assert quantised_error(array[array != 0], found) <= min(tried) * 1.1
    assert quantised_error(array, found) < quantised_error(array, Range(array.min(), array.max()))


def test_the_least_squared_error_of_symmetric_scales_weighs_both_sides() -> None:
    """One value of -20 among 200,000: clipped at t it costs (20 - t)^2, kept all others cost
    (2 t / 255)^2 / 12 each; the sum is least at t = 9.9."""
    array = np.random.default_rng(0).standard_normal(200_000).astype(np.float32)
    array[0] = -20.0
    limits = mean_squared_error(histogram(array), SYMMETRIC)
    assert limits.low == pytest.approx(-9.9, abs=0.2)
    assert limits.high == array.max()


def test_entropy_clips_a_lone_outlier_and_keeps_what_is_even() -> None:
    random = np.random.default_rng(0)
    bell = random.standard_normal(100_000).astype(np.float32)
    bell[0] = 200.0
    clipped = entropy(histogram(bell))
    assert clipped.high < 20
    even = random.uniform(-1, 1, 100_000).astype(np.float32)
    assert entropy(histogram(even)).high > 0.95


def test_a_value_that_is_infinite_or_nan_is_seen() -> None:
    for special in (np.inf, -np.inf, np.nan):
        taken = [{"x": np.array([1.0, special, 2.0])}]
        assert not measure_extremes(lambda sample: sample, taken, ["x"])["x"].is_finite
