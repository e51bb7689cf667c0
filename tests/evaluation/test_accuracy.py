"""Accuracy figures: on arrays whose answers are known, and on the odd ones."""

from __future__ import annotations

from math import inf, isfinite, log10

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from stages.evaluation.accuracy import compare_floats, compare_integers


def test_figures_by_hand() -> None:
    expected = np.array([3.0, 4.0], np.float32)
    result = compare_floats(np.array([3.0, 3.0], np.float32), expected)
    # cosine 21 / (sqrt(18) 5); error 1 over the range [0, 4]; noise 1, signal 25
    assert result.cosine == pytest.approx(21 / (18**0.5 * 5))
    assert result.relative_error == 0.25
    assert result.sqnr_db == pytest.approx(10 * log10(25))


@pytest.mark.parametrize(
    ("actual", "expected", "cosine", "relative_error", "sqnr_db"),
    [
        ([], [], 1.0, 0.0, inf),
        ([0.0, 0.0], [0.0, 0.0], 1.0, 0.0, inf),
        ([0.5, 0.0], [0.0, 0.0], 0.0, 0.5, -inf),  # a zero reference: the error is absolute
        ([0.0, 0.0], [2.0, 1.0], 0.0, 1.0, 0.0),
        ([2.0, -1.0], [3.0, -1.0], 7 / 50**0.5, 0.25, 10.0),  # the range holds zero already
        ([4.0, 4.0], [5.0, 5.0], 1.0, 0.2, 10 * log10(25)),  # constant: over its magnitude
        ([-3.0], [-3.0], 1.0, 0.0, inf),
        ([1e300, 1e300], [1e300, 1e300], 1.0, 0.0, inf),  # squares overflow
    ],
)
def test_odd_arrays(
    actual: list[float],
    expected: list[float],
    cosine: float,
    relative_error: float,
    sqnr_db: float,
) -> None:
    result = compare_floats(np.array(actual), np.array(expected))
    assert result.special_mismatches == 0
    assert result.cosine == pytest.approx(cosine)
    assert result.relative_error == pytest.approx(relative_error)
    assert result.sqnr_db == pytest.approx(sqnr_db)


@pytest.mark.parametrize(
    ("actual", "expected", "mismatches"),
    [
        ([np.nan, 1.0], [np.nan, 1.0], 0),
        ([np.nan, 1.0], [0.0, 1.0], 1),
        ([0.0, 1.0], [np.nan, 1.0], 1),
        ([np.inf, 1.0], [np.inf, 1.0], 0),
        ([np.inf, 1.0], [-np.inf, 1.0], 1),
        ([np.inf, np.nan], [1.0, np.inf], 2),
    ],
)
def test_nan_and_infinity_match_only_themselves(
    actual: list[float], expected: list[float], mismatches: int
) -> None:
    result = compare_floats(np.array(actual), np.array(expected))
    assert result.special_mismatches == mismatches
    assert result.cosine == 1.0
    assert result.relative_error == 0.0


@given(
    arrays(
        np.float32, array_shapes(max_dims=3, max_side=5), elements=st.floats(-100, 100, width=32)
    )
)
def test_an_array_equals_itself(values: np.ndarray) -> None:
    result = compare_floats(values, values.copy())
    assert result.cosine == pytest.approx(1.0)
    assert (result.relative_error, result.sqnr_db) == (0.0, inf)


@given(
    arrays(np.float32, 20, elements=st.floats(-100, 100, width=32)),
    st.floats(0.001, 1000),
)
def test_figures_dont_depend_on_the_scale(values: np.ndarray, factor: float) -> None:
    reference = np.linspace(-50, 80, 20)
    one = compare_floats(values, reference)
    other = compare_floats(values.astype(np.float64) * factor, reference * factor)
    assert other.cosine == pytest.approx(one.cosine, abs=1e-9)
    assert other.relative_error == pytest.approx(one.relative_error)
    if isfinite(one.sqnr_db):
        assert other.sqnr_db == pytest.approx(one.sqnr_db, abs=1e-6)


def test_integers_are_compared_exactly() -> None:
    big = 2**62
    result = compare_integers(np.array([big + 1, 5]), np.array([big, 5]))
    assert (result.mismatches, result.largest_difference) == (1, 1)
    same = compare_integers(np.array([True, False]), np.array([True, False]))
    assert (same.mismatches, same.largest_difference, same.sqnr_db) == (0, 0, inf)
    low = compare_integers(np.array([0, 255], np.uint8), np.array([255, 255], np.uint8))
    assert (low.mismatches, low.largest_difference) == (1, 255)


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="shapes differ"):
        compare_floats(np.zeros(3), np.zeros((3, 1)))
