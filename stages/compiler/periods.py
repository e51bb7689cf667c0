"""The stretch of a sequence that repeats: the layers of an encoder among a recipe's groups."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Period:
    """`[start, stop)` of a sequence repeats every `length` items, twice or more."""

    start: int
    stop: int
    length: int


def longest_period(items: Sequence[Hashable]) -> Period | None:
    """The period that covers most of a sequence, the shortest of those; None where nothing is
    repeated. Quadratic in the items, vectorised along one axis."""
    numbers: dict[Hashable, int] = {}
    kinds = np.array([numbers.setdefault(item, len(numbers)) for item in items], dtype=np.int64)
    best: Period | None = None
    for length in range(1, len(items) // 2 + 1):
        start, run = _longest_run(kinds[length:] == kinds[:-length])
        if run < length:
            continue
        found = Period(start, start + run + length, length)
        if best is None or found.stop - found.start > best.stop - best.start:
            best = found
    return best


def _longest_run(same: np.typing.NDArray[np.bool_]) -> tuple[int, int]:
    """Where the longest run of True begins, the first of those, and how long it is."""
    padded = np.concatenate(([0], same.astype(np.int8), [0]))
    changes = np.diff(padded)
    begins, ends = np.flatnonzero(changes == 1), np.flatnonzero(changes == -1)
    if not len(begins):
        return 0, 0
    longest = int(np.argmax(ends - begins))
    return int(begins[longest]), int(ends[longest] - begins[longest])
