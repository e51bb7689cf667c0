"""How far predictions lie from measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEAST_RANKED = 3


@dataclass(frozen=True, slots=True)
class ErrorFigures:
    """Of `count` rows: the mean and largest absolute error relative to the measurement (1 is
    100 %), and Spearman's rank correlation (None where there are fewer than three rows, or all
    are equal)."""

    count: int
    mape: float
    largest: float
    spearman: float | None


def error_figures(measured: Sequence[float], predicted: Sequence[float]) -> ErrorFigures | None:
    """The figures of some rows; None where there is no row.

    Raises:
        ValueError: not as many predictions as measurements.
    """
    errors = [abs(relative_error(m, p)) for m, p in zip(measured, predicted, strict=True)]
    if not errors:
        return None
    mape = math.fsum(errors) / len(errors)
    return ErrorFigures(len(errors), mape, max(errors), spearman(measured, predicted))


def relative_error(measured: float, predicted: float) -> float:
    """(predicted - measured) / measured."""
    return (predicted - measured) / measured


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Spearman's rank correlation: Pearson's, of ranks, where equal values share their mean rank.

    None for fewer than three pairs, or where either side has one value only.
    """
    if len(one) < LEAST_RANKED:
        return None
    x, y = _ranks(one), _ranks(other)
    mean = (len(x) + 1) / 2
    covariance = math.fsum((a - mean) * (b - mean) for a, b in zip(x, y, strict=True))
    spread = math.fsum((a - mean) ** 2 for a in x) * math.fsum((b - mean) ** 2 for b in y)
    return None if spread == 0 else covariance / math.sqrt(spread)


def rounded(value: float) -> int:
    """A positive number to three digits, at least 1."""
    scale = int(10 ** max(0, len(str(int(value))) - 3))
    return int(max(1, round(value / scale) * scale))


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda index: values[index])
    ranks = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for index in order[first : last + 1]:
            ranks[index] = (first + last) / 2 + 1
        first = last + 1
    return ranks
