"""The compiler's measure of closeness is the judge's, though they share no code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stages.evaluation.accuracy import compare_floats
from stages.evaluation.output_checks import AccuracyLimits, check_output
from stages.quantizer.closeness import Closeness, closeness, compare
from stages.quantizer.settings import AccuracyLimit

floats = hnp.arrays(np.float32, 12, elements=st.floats(width=32))
small = hnp.arrays(np.int8, 12, elements=st.integers(-3, 3))
LIMIT = AccuracyLimit("samples", 30.0, None, None)


@settings(max_examples=40)
@given(floats, floats)
def test_floats_are_compared_as_the_judge_does(actual: np.ndarray, expected: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        ours, judged = compare(actual, expected), compare_floats(actual, expected)
    assert ours.sqnr_db == pytest.approx(judged.sqnr_db, nan_ok=True)
    assert ours.cosine == pytest.approx(judged.cosine, nan_ok=True)
    assert ours.relative_error == pytest.approx(judged.relative_error, nan_ok=True)
    assert ours.special_mismatches == judged.special_mismatches


@settings(max_examples=40)
@given(small, small, st.sampled_from([np.int8, np.int32, np.bool_]))
def test_integers_pass_where_the_judge_lets_them(
    actual: np.ndarray, expected: np.ndarray, dtype: type
) -> None:
    one, other = actual.astype(dtype), expected.astype(dtype)
    verdict = check_output("y", 0, one, other, AccuracyLimits(), is_quantized=True)
    assert compare(one, other).meets(LIMIT) == verdict.check.passed


def test_the_worst_output_counts() -> None:
    expected = {"a": np.ones(4, np.float32), "b": np.ones(4, np.float32)}
    found = closeness({"a": np.ones(4), "b": np.full(4, 1.1)}, expected)
    assert found.sqnr_db == pytest.approx(20, abs=0.1)
    assert found.relative_error == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("limit", "meets"),
    [
        (AccuracyLimit("samples", 20.0, None, None), True),
        (AccuracyLimit("samples", 20.1, None, None), False),
        (AccuracyLimit("samples", None, 0.99, None), True),
        (AccuracyLimit("samples", None, 0.991, None), False),
        (AccuracyLimit("samples", None, None, 0.05), True),
        (AccuracyLimit("samples", None, None, 0.049), False),
        (AccuracyLimit("samples", 20.0, 0.99, 0.01), False),
    ],
)
def test_every_limit_that_is_given_counts(limit: AccuracyLimit, meets: bool) -> None:
    assert Closeness(20.0, 0.99, 0.05).meets(limit) is meets
