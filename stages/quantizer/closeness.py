"""How close outputs come to the float model's, in the measures of the validate stage.

The judge has its own code for these (`stages/evaluation/accuracy.py`), by design; a test holds both
to the same figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf, log10

import numpy as np

from stages.quantizer.answers import argmax_misses, mask_agreement, region_agreement, regions
from stages.quantizer.settings import AccuracyLimit
from stages.tensors import Array

_MIN_AGREEMENT = 0.99
_MAX_STEPS = 1
_ROUNDING = 1e-6  # of the product of a share and a number of positions
_NARROW_BYTES = 2


@dataclass(frozen=True, slots=True)
class Closeness:
    """The worst of several outputs. `agreement` is the share of equal elements of outputs that are
    wide integers or booleans; `special_mismatches` counts NaN and infinities that one side has.

    `argmax_positions` are the positions at which classes were compared, over all samples, and
    `argmax_misses` those at which another class is the likeliest; none where no limit asks for
    them, as `mask_agreement` and `region_agreement` are 1 then.
    """

    sqnr_db: float = inf
    cosine: float = 1.0
    relative_error: float = 0.0
    agreement: float = 1.0
    special_mismatches: int = 0
    argmax_positions: int = 0
    argmax_misses: int = 0
    mask_agreement: float = 1.0
    region_agreement: float = 1.0

    @property
    def argmax_agreement(self) -> float:
        """The share of positions at which the same class is the likeliest."""
        return 1 - self.argmax_misses / self.argmax_positions if self.argmax_positions else 1.0

    def meets(self, limit: AccuracyLimit) -> bool:
        """Whether every limit is kept."""
        return self.may_meet(limit, 1.0)

    def may_meet(self, limit: AccuracyLimit, seen: float) -> bool:
        """Whether every limit can still be kept when only a share of the samples was `seen`, which
        are all of one shape."""
        allowed = (1 - (limit.min_argmax_agreement or 0.0)) * self.argmax_positions / seen
        return (
            not self.special_mismatches
            and self.agreement >= _MIN_AGREEMENT
            and (limit.min_sqnr_db is None or self.sqnr_db >= limit.min_sqnr_db)
            and (limit.min_cosine is None or self.cosine >= limit.min_cosine)
            and (
                limit.max_relative_error is None or self.relative_error <= limit.max_relative_error
            )
            and self.argmax_misses <= allowed + _ROUNDING
            and self.mask_agreement >= (limit.min_mask_agreement or 0.0)
            and self.region_agreement >= (limit.min_region_agreement or 0.0)
        )

    def worse(self, other: Closeness) -> Closeness:
        """The worse of each figure; counts add up."""
        return Closeness(
            min(self.sqnr_db, other.sqnr_db),
            min(self.cosine, other.cosine),
            max(self.relative_error, other.relative_error),
            min(self.agreement, other.agreement),
            self.special_mismatches + other.special_mismatches,
            self.argmax_positions + other.argmax_positions,
            self.argmax_misses + other.argmax_misses,
            min(self.mask_agreement, other.mask_agreement),
            min(self.region_agreement, other.region_agreement),
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
        if limit.min_argmax_agreement is not None:
            figures.append(f"{self.argmax_agreement:.2%} of arg max equal")
        if limit.min_mask_agreement is not None:
            figures.append(f"mask overlap {self.mask_agreement:.2%}")
        if limit.min_region_agreement is not None:
            figures.append(f"{self.region_agreement:.2%} of regions found")
        if self.agreement < _MIN_AGREEMENT:
            figures.append(f"{self.agreement:.2%} of integer elements equal")
        if self.special_mismatches:
            figures.append(f"{self.special_mismatches} NaN or infinite elements")
        return ", ".join(figures)


def closeness(
    actual: Mapping[str, Array], expected: Mapping[str, Array], limit: AccuracyLimit | None = None
) -> Closeness:
    """The worst over all outputs of one sample; `limit` says which answers are compared."""
    found = worst(compare(actual[name], array) for name, array in expected.items())
    if limit is None:
        return found
    chosen = [name for name in expected if limit.output in (None, name)]
    pairs = [(actual[name], expected[name]) for name in chosen]
    if limit.min_argmax_agreement is not None:
        counts = [argmax_misses(one, other, limit.class_axis) for one, other in pairs]
        found = replace(
            found,
            argmax_positions=sum(positions for positions, _ in counts),
            argmax_misses=sum(misses for _, misses in counts),
        )
    if limit.min_mask_agreement is not None:
        shares = [mask_agreement(one, other, limit.mask_threshold) for one, other in pairs]
        found = replace(found, mask_agreement=min(shares, default=1.0))
    if limit.min_region_agreement is not None:
        shares = [_region_agreement(one, other, limit) for one, other in pairs]
        found = replace(found, region_agreement=min(shares, default=1.0))
    return found


def _region_agreement(actual: Array, expected: Array, limit: AccuracyLimit) -> float:
    options = limit.mask_threshold, limit.region_side, limit.region_score
    return region_agreement(regions(actual, *options), regions(expected, *options))


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
