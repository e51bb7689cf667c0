"""What counts as computing the same."""

from __future__ import annotations

import numpy as np
import pytest

from stages.errors import RecipeError
from stages.normalizer.proof import _difference
from stages.tensors import Array

NAN, INF = float("nan"), float("inf")


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("wanted", "got", "absolute"),
    [
        (f32(1, 2), f32(1, 2), 0.0),
        (f32(1, -4), f32(1, -4.0001), 1e-4),
        (f32(NAN, INF, -INF, 2), f32(NAN, INF, -INF, 2), 0.0),
        (f32(NAN, INF), f32(NAN, INF), 0.0),
        (f32(), f32(), 0.0),
        (np.float64([1.0]), f32(1.00001), 1e-5),
        (np.float16([100]), np.float16([100.5]), 0.5),
        (np.array([1, 2]), np.array([1, 2]), 0.0),
        (np.array([True]), np.array([True]), 0.0),
        (np.uint8([0, 255]), np.uint8([1, 254]), 0.0),
        (np.int8([-128]), np.int8([-127]), 0.0),
    ],
)
def test_equal_enough(wanted: Array, got: Array, absolute: float) -> None:
    assert _difference("y", wanted, got)[0] == pytest.approx(absolute, rel=0.05)


@pytest.mark.parametrize(
    ("wanted", "got", "said"),
    [
        (f32(1, 2), f32(1, 2.01), "differ by 0.005"),
        (f32(1, 2), f32(1, NAN), "differ by nan"),
        (f32(1, 2), f32(1, INF), "differ by inf"),
        (f32(1, NAN), f32(1, 2), "NaNs lie elsewhere"),
        (f32(1, INF), f32(1, -INF), "infinities"),
        (f32(1, 2), f32(1), r"float32\[1\] instead of float32\[2\]"),
        (f32(1), np.array([1]), "int64"),
        (np.array([1, 2]), np.array([1, 3]), "1 of 2 elements"),
        (np.uint8([0, 255]), np.uint8([255, 255]), "1 of 2 elements"),
        (np.array([True]), np.array([False]), "1 of 1 elements"),
    ],
)
def test_different(wanted: Array, got: Array, said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        _difference("y", wanted, got)
