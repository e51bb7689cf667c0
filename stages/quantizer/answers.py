"""What a task makes of an output: the likeliest class at each position, a mask, or its regions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stages.tensors import Array

_LEAST_OVERLAP = 0.5

Regions = Sequence[NDArray[np.int64]]
"""For each image of an output the boxes of its regions, int64[regions, 4]: first row, first column,
one past the last row, one past the last column."""


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


def regions(output: Array, threshold: float, side: int, score: float | None) -> Regions:
    """The regions of each image, which the last two axes hold: elements above `threshold` that
    hang together along these axes. Regions whose box is narrower than `side`, or whose elements'
    mean is below `score`, don't count. None where there are fewer than two axes.
    """
    from scipy import ndimage

    values = np.asarray(output, np.float64)
    if values.ndim < 2 or not values.size:
        return []
    found = []
    for image in values.reshape(-1, *values.shape[-2:]):
        labels, count = ndimage.label(image > threshold)
        boxes = np.array(
            [[axis.start for axis in place] + [axis.stop for axis in place]
             for place in ndimage.find_objects(labels)], np.int64
        ).reshape(-1, 4)  # fmt: skip
        kept = (boxes[:, 2:] - boxes[:, :2]).min(axis=1, initial=side) >= side
        if score is not None:
            means = ndimage.mean(image, labels, np.arange(1, count + 1))
            kept &= np.asarray(means, np.float64).reshape(-1) >= score
        found.append(boxes[kept])
    return found


def region_agreement(actual: Regions, expected: Regions) -> float:
    """Of the regions of both sides, the share that overlap one of the other side's: intersection
    over union of their boxes of at least one half. 1 where neither side has any."""
    agreeing = count = 0
    for one, other in zip(actual, expected, strict=True):
        overlaps = _overlaps(one, other) >= _LEAST_OVERLAP
        agreeing += int(np.count_nonzero(overlaps.any(axis=0)))
        agreeing += int(np.count_nonzero(overlaps.any(axis=1)))
        count += len(one) + len(other)
    return agreeing / count if count else 1.0


def _overlaps(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.float64]:
    """Intersection over union of each box of one with each of the other."""
    left, right = one[:, None], other[None]
    low, high = np.maximum(left[..., :2], right[..., :2]), np.minimum(left[..., 2:], right[..., 2:])
    shared = np.maximum(high - low, 0).prod(axis=-1)
    return np.asarray(shared / (_areas(left) + _areas(right) - shared), np.float64)


def _areas(boxes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray((boxes[..., 2:] - boxes[..., :2]).prod(axis=-1), np.int64)
