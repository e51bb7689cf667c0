"""What a trained model answers: a string, a class, boxes; and whether two answers agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stages.tensors import Array

Box = tuple[int, int, int, int]
"""Top, left, bottom, right; half-open."""

_BLANK = 0
_PIXEL, _BOX = 0.3, 0.6  # PP-OCR's thresholds of a pixel and of a box's mean
_LEAST_SIDE = 3
_LEAST_OVERLAP = 0.5


@dataclass(frozen=True, slots=True)
class Boxes:
    """Where text was found."""

    boxes: tuple[Box, ...]

    def agrees(self, other: Boxes) -> bool:
        """Each box of either has one of the other whose intersection over union is >= 0.5."""
        return _covered(self.boxes, other.boxes) and _covered(other.boxes, self.boxes)


def greatest(outputs: Mapping[str, Array]) -> int:
    """The class of the only output."""
    (scores,) = outputs.values()
    return int(np.argmax(scores.astype(np.float64)))


def recognised(outputs: Mapping[str, Array]) -> tuple[int, ...]:
    """The string, as numbers of characters: the likeliest of each step of [1, steps, characters],
    repetitions and blanks left out (greedy CTC)."""
    (scores,) = outputs.values()
    best = np.argmax(scores[0].astype(np.float64), axis=-1)
    kept = np.concatenate([[True], best[1:] != best[:-1]]) & (best != _BLANK)
    return tuple(int(number) for number in best[kept])


def found_boxes(outputs: Mapping[str, Array]) -> Boxes:
    """Upright boxes around connected pixels of text in a map [1, 1, height, width]."""
    from scipy import ndimage

    (scores,) = outputs.values()
    chart = np.asarray(scores, np.float64)[0, 0]
    labels, _ = ndimage.label(chart > _PIXEL)
    boxes = []
    for number, place in enumerate(ndimage.find_objects(labels), start=1):
        rows, columns = place
        inside = labels[place] == number
        sides = (rows.stop - rows.start, columns.stop - columns.start)
        if min(sides) >= _LEAST_SIDE and chart[place][inside].mean() >= _BOX:
            boxes.append((rows.start, columns.start, rows.stop, columns.stop))
    return Boxes(tuple(boxes))


def is_speech(probability: Array) -> bool:
    """Whether the detector hears speech: its own threshold of one half."""
    return bool(np.asarray(probability, np.float64).reshape(-1)[0] >= 0.5)


def agree(one: object, other: object) -> bool:
    """Whether two answers to the same input are the same."""
    if isinstance(one, Boxes) and isinstance(other, Boxes):
        return one.agrees(other)
    return one == other


def _covered(boxes: Sequence[Box], others: Sequence[Box]) -> bool:
    return all(any(_overlap(box, other) >= _LEAST_OVERLAP for other in others) for box in boxes)


def _overlap(one: Box, other: Box) -> float:
    low = np.maximum(one[:2], other[:2])
    high = np.minimum(one[2:], other[2:])
    shared = float(np.prod(np.maximum(high - low, 0)))
    return shared / (_area(one) + _area(other) - shared)


def _area(box: Box) -> int:
    return (box[2] - box[0]) * (box[3] - box[1])
