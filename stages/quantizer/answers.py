"""What a task makes of an output: the likeliest class at each position, or a mask."""

from __future__ import annotations

import numpy as np

from stages.tensors import Array


def argmax_misses(actual: Array, expected: Array, axis: int) -> tuple[int, int]:
    """How many positions there are along the axes other than `axis`, and at how many of these
    another element along it is the greatest (the first of equals); none without such an axis."""
    if not -expected.ndim <= axis < expected.ndim or not expected.size:
        return 0, 0
    found = np.argmax(np.asarray(actual, np.float64), axis=axis)
    wanted = np.argmax(np.asarray(expected, np.float64), axis=axis)
    return int(wanted.size), int(np.count_nonzero(found != wanted))


def mask_agreement(actual: Array, expected: Array, threshold: float) -> float:
    """Intersection over union of the elements above `threshold`; 1 where neither has any."""
    found = np.asarray(actual, np.float64) > threshold
    wanted = np.asarray(expected, np.float64) > threshold
    union = int(np.count_nonzero(found | wanted))
    return int(np.count_nonzero(found & wanted)) / union if union else 1.0
