"""How close outputs come to the float model's, in the measures of the validate stage.

The judge has its own code for these (`stages/evaluation/accuracy.py`), by design; a test holds both
to the same figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, log10

import numpy as np

from stages.quantizer.settings import AccuracyLimit
from stages.tensors import Array

_MIN_AGREEMENT = 0.99
_MAX_STEPS = 1
_NARROW_BYTES = 2


@dataclass(frozen=True, slots=True)
class Closeness:
    """The worst of several outputs. `agreement` is the share of equal elements of outputs that are
    wide integers or booleans; `special_mismatches` counts NaN and infinities that one side has."""

    sqnr_db: float = inf
    cosine: float = 1.0
    relative_error: float = 0.0
    agreement: float = 1.0
    special_mismatches: int = 0

    def meets(self, limit: AccuracyLimit) -> bool:
        """Whether every limit is kept."""
        return (
            not self.special_mismatches
            and self.agreement >= _MIN_AGREEMENT
            and (limit.min_sqnr_db is None or self.sqnr_db >= limit.min_sqnr_db)
            and (limit.min_cosine is None or self.cosine >= limit.min_cosine)
            and (
                limit.max_relative_error is None or self.relative_error <= limit.max_relative_error
            )
        )

    def worse(self, other: Closeness) -> Closeness:
        """The worse of each figure."""
        return Closeness(
            min(self.sqnr_db, other.sqnr_db),
            min(self.cosine, other.cosine),
            max(self.relative_error, other.relative_error),
            min(self.agreement, other.agreement),
            self.special_mismatches + other.special_mismatches,
        )

    def words(self, limit: AccuracyLimit) -> str:
        """The figures that the limit is about, as messages name them."""
        figures = []
        if limit.min_sqnr_db is not None:
            figures.append(f"SQNR {self.sqnr_db:.1f} dB")
        if limit.min_cosine is not None:
            figures.append(f"cosine {self.cosine:.6f}")
        if limit.max_relative_error is not None:
            figures.append(f"error {self.relative_error:.3%} of the range")
        if self.agreement < _MIN_AGREEMENT:
            figures.append(f"{self.agreement:.2%} of integer elements equal")
        if self.special_mismatches:
            figures.append(f"{self.special_mismatches} NaN or infinite elements")
        return ", ".join(figures)


def closeness(actual: Mapping[str, Array], expected: Mapping[str, Array]) -> Closeness:
    """The worst over all outputs of one sample."""
    return worst(compare(actual[name], array) for name, array in expected.items())


def worst(items: Iterable[Closeness]) -> Closeness:
    """The worst of each figure."""
    found = Closeness()
    for item in items:
        found = found.worse(item)
    return found


def compare(actual: Array, expected: Array) -> Closeness:
    """One output against the float model's, of the same shape."""
    if expected.dtype.kind in "iub":
        return _compare_integers(actual, expected)
    left = np.asarray(actual, np.float64).reshape(-1)
    right = np.asarray(expected, np.float64).reshape(-1)
    finite = np.isfinite(left) & np.isfinite(right)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    mismatches = int(np.count_nonzero(~finite & ~same))
    left, right = left[finite], right[finite]
    if not left.size:
        return Closeness(special_mismatches=mismatches)
    span = max(right.max(), 0.0) - min(right.min(), 0.0)
    error = float(np.abs(left - right).max()) / (span or 1.0)
    return Closeness(_sqnr_db(left, right), _cosine(left, right), error, 1.0, mismatches)


def _compare_integers(actual: Array, expected: Array) -> Closeness:
    left, right = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    if expected.dtype.kind != "b" and expected.dtype.itemsize <= _NARROW_BYTES:
        if np.abs(left - right).max(initial=0) <= _MAX_STEPS:
            return Closeness()
        return Closeness(sqnr_db=_sqnr_db(left.reshape(-1), right.reshape(-1)))
    equal = float(np.mean(left == right)) if left.size else 1.0
    return Closeness(agreement=equal)


def _sqnr_db(left: np.ndarray, right: np.ndarray) -> float:
    peak = max(float(np.abs(left).max()), float(np.abs(right).max()))
    if peak == 0 or np.array_equal(left, right):
        return inf
    noise = float(np.square(left / peak - right / peak).sum())
    signal = float(np.square(right / peak).sum())
    if noise == 0:
        return inf
    return 10 * log10(signal / noise) if signal > 0 else -inf


def _cosine(left: np.ndarray, right: np.ndarray) -> float:
    peaks = float(np.abs(left).max()), float(np.abs(right).max())
    if 0 in peaks:
        return 1.0 if peaks[0] == peaks[1] else 0.0
    one, other = left / peaks[0], right / peaks[1]
    norms = float(np.sqrt(np.dot(one, one) * np.dot(other, other)))
    return min(1.0, max(-1.0, float(np.dot(one, other)) / norms))
