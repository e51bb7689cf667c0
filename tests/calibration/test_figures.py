"""Errors against hand-computed numbers and scipy's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from stages.calibration.figures import error_figures, relative_error, spearman


def test_figures_of_three_rows() -> None:
    figures = error_figures([10.0, 20.0, 40.0], [11.0, 15.0, 40.0])
    assert figures is not None
    assert figures.count == 3
    assert figures.mape == pytest.approx((0.1 + 0.25 + 0) / 3)
    assert figures.largest == pytest.approx(0.25)
    assert figures.spearman == 1.0
    assert relative_error(20.0, 15.0) == -0.25


def test_no_row_has_no_figures_and_two_have_no_rank() -> None:
    assert error_figures([], []) is None
    assert spearman([1, 2], [1, 2]) is None
    assert spearman([1, 2, 3], [5, 5, 5]) is None


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="zip"):
        error_figures([1.0], [])


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=3, max_size=12).filter(
        lambda pairs: all(len({pair[side] for pair in pairs}) > 1 for side in (0, 1))
    )
)
def test_spearman_is_scipys(pairs: list[tuple[int, int]]) -> None:
    one, other = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    assert spearman(one, other) == pytest.approx(stats.spearmanr(one, other).statistic)
