"""How close a device's outputs come to the reference's."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.tensors import Array


@dataclass(frozen=True, slots=True)
class FloatAccuracy:
    """Floating-point outputs compared.

    `cosine`: of the two as vectors; 1 where both are zero, 0 where only one is.
    `relative_error`: the largest error over the range of the reference, which always holds zero (a
    float's precision is relative to its magnitude: probabilities of 0.4999 and 0.5001 span half of
    one, not two ten-thousandths); absolute where the reference is zero.
    `sqnr_db`: signal over noise power; infinite where they are equal.
    `special_mismatches`: elements of which one is NaN or infinite and the other isn't the same.
    """

    elements: int
    cosine: float
    relative_error: float
    sqnr_db: float
    special_mismatches: int


@dataclass(frozen=True, slots=True)
class IntegerAccuracy:
    """Integer outputs compared: how many differ, and by how much at most."""

    elements: int
    mismatches: int
    largest_difference: int
    sqnr_db: float


def compare_floats(actual: Array, expected: Array) -> FloatAccuracy:
    """Compare arrays of one shape; elements that are the same NaN or infinity are left out.

    Raises:
        ValueError: the shapes differ.
    """
    _check_shapes(actual, expected)
    left = np.asarray(actual, dtype=np.float64).reshape(-1)
    right = np.asarray(expected, dtype=np.float64).reshape(-1)
    finite = np.isfinite(left) & np.isfinite(right)
    same_special = (left == right) | (np.isnan(left) & np.isnan(right))
    mismatches = int(np.count_nonzero(~finite & ~same_special))
    left, right = left[finite], right[finite]
    if left.size == 0:
        return FloatAccuracy(actual.size, 1.0, 0.0, inf, mismatches)
    return FloatAccuracy(
        elements=actual.size,
        cosine=_cosine(left, right),
        relative_error=float(np.abs(left - right).max()) / _scale(right),
        sqnr_db=_sqnr_db(left, right),
        special_mismatches=mismatches,
    )


def compare_integers(actual: Array, expected: Array) -> IntegerAccuracy:
    """Compare integer or boolean arrays of one shape, exactly.

    Raises:
        ValueError: the shapes differ.
    """
    _check_shapes(actual, expected)
    different = actual != expected
    mismatches = int(np.count_nonzero(different))
    largest = max(
        (
            abs(int(one) - int(other))
            for one, other in zip(actual[different], expected[different], strict=True)
        ),
        default=0,
    )
    if not mismatches:
        return IntegerAccuracy(actual.size, 0, 0, inf)
    left = np.asarray(actual, dtype=np.float64).reshape(-1)
    right = np.asarray(expected, dtype=np.float64).reshape(-1)
    return IntegerAccuracy(actual.size, mismatches, largest, _sqnr_db(left, right))


def _check_shapes(actual: Array, expected: Array) -> None:
    if actual.shape != expected.shape:
        raise ValueError(f"shapes differ: {list(actual.shape)} and {list(expected.shape)}")


def _cosine(left: NDArray[Any], right: NDArray[Any]) -> float:
    # Scaled first, so that no square overflows or vanishes.
    left_peak, right_peak = float(np.abs(left).max()), float(np.abs(right).max())
    if left_peak == 0 or right_peak == 0:
        return 1.0 if left_peak == right_peak else 0.0
    one, other = left / left_peak, right / right_peak
    norms = float(np.sqrt(np.dot(one, one) * np.dot(other, other)))
    return min(1.0, max(-1.0, float(np.dot(one, other)) / norms))


def _scale(reference: NDArray[Any]) -> float:
    low, high = min(float(reference.min()), 0.0), max(float(reference.max()), 0.0)
    return high - low or 1.0


def _sqnr_db(left: NDArray[Any], right: NDArray[Any]) -> float:
    """10 log10 of signal power over noise power; -inf where a zero signal is missed."""
    peak = max(float(np.abs(left).max()), float(np.abs(right).max()))
    if peak == 0 or np.array_equal(left, right):
        return inf
    # scaled first, so that no square overflows
    noise = float(np.square(left / peak - right / peak).sum())
    signal = float(np.square(right / peak).sum())
    if noise == 0:
        return inf
    return 10 * log10(signal / noise) if signal > 0 else -inf
