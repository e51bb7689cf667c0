"""What a task makes of an output, against loops over its elements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stages.quantizer.answers import (
    Regions,
    argmax_misses,
    mask_agreement,
    region_agreement,
    regions,
)
from stages.quantizer.closeness import Closeness, closeness, worst
from stages.quantizer.settings import AccuracyLimit

scores = hnp.arrays(np.float32, (2, 3, 4), elements=st.integers(-2, 2).map(float))


@settings(max_examples=60)
@given(scores, scores, st.sampled_from([-3, -2, -1, 0, 1, 2]))
def test_positions_are_counted_one_by_one(
    actual: np.ndarray, expected: np.ndarray, axis: int
) -> None:
    rows = [np.moveaxis(array, axis, -1) for array in (actual, expected)]
    rows = [array.reshape(-1, array.shape[-1]).tolist() for array in rows]
    misses = sum(
        one.index(max(one)) != other.index(max(other)) for one, other in zip(*rows, strict=True)
    )
    assert argmax_misses(actual, expected, axis) == (len(rows[0]), misses)


@settings(max_examples=60)
@given(scores, scores, st.sampled_from([-1.5, 0.0, 0.5, 3.0]))
def test_masks_overlap_as_sets_do(
    actual: np.ndarray, expected: np.ndarray, threshold: float
) -> None:
    one, other = (
        {place for place in np.ndindex(array.shape) if array[place] > threshold}
        for array in (actual, expected)
    )
    union = one | other
    assert mask_agreement(actual, expected, threshold) == (
        len(one & other) / len(union) if union else 1.0
    )


def test_an_output_without_that_axis_has_no_classes() -> None:
    assert argmax_misses(np.ones(3), np.ones(3), 1) == (0, 0)
    assert argmax_misses(np.ones((0, 3)), np.ones((0, 3)), 0) == (0, 0)


EXPECTED = {"y": np.eye(4, dtype=np.float32)[None], "z": np.ones((1, 5, 2), np.float32)}
LIMIT = AccuracyLimit("samples", min_argmax_agreement=0.75, output="y")


def wrong(count: int) -> dict[str, np.ndarray]:
    """The first `count` of four positions with another class, and all of `z` too."""
    found = EXPECTED["y"].copy()
    found[0, :count] = np.roll(found[0, :count], 1, axis=1)
    return {"y": found, "z": EXPECTED["z"] * [0.1, 1.0]}


def test_only_the_named_output_is_asked_and_only_on_demand() -> None:
    asked = closeness(wrong(1), EXPECTED, LIMIT)
    assert (asked.argmax_positions, asked.argmax_misses) == (4, 1)
    assert closeness(wrong(1), EXPECTED).argmax_positions == 0
    every = closeness(wrong(1), EXPECTED, AccuracyLimit("samples", min_argmax_agreement=0.75))
    assert (every.argmax_positions, every.argmax_misses) == (9, 6)


def test_the_share_is_one_of_all_positions_of_all_samples() -> None:
    reached = worst(closeness(wrong(count), EXPECTED, LIMIT) for count in (0, 2, 1, 1))
    assert reached.argmax_agreement == pytest.approx(0.75)
    assert reached.meets(LIMIT)
    assert not reached.worse(closeness(wrong(2), EXPECTED, LIMIT)).meets(LIMIT)
    assert reached.words(LIMIT) == "75.00% of arg max equal"


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8))
def test_a_trial_stops_early_only_where_it_must_fail(counts: list[int]) -> None:
    reached, stopped = Closeness(), False
    for seen, count in enumerate(counts, start=1):
        reached = reached.worse(closeness(wrong(count), EXPECTED, LIMIT))
        stopped = stopped or not reached.may_meet(LIMIT, seen / len(counts))
    assert stopped == (not reached.meets(LIMIT))


def test_the_worst_mask_counts() -> None:
    limit = AccuracyLimit("samples", min_mask_agreement=0.5, mask_threshold=0.3)
    expected = {"y": np.array([0.9, 0.4, 0.2, 0.1], np.float32)}
    half = closeness({"y": np.array([0.9, 0.2, 0.2, 0.1])}, expected, limit)
    third = closeness({"y": np.array([0.9, 0.2, 0.31, 0.1])}, expected, limit)
    assert (half.mask_agreement, third.mask_agreement) == (0.5, pytest.approx(1 / 3))
    assert half.meets(limit)
    assert not half.worse(third).meets(limit)


def flooded(image: np.ndarray, threshold: float) -> list[list[tuple[int, int]]]:
    """The places of each region, found by walking from one to its neighbours."""
    left = {place for place in np.ndindex(image.shape) if image[place] > threshold}
    found = []
    while left:
        region, open_ = [], [min(left)]
        left.discard(open_[0])
        while open_:
            row, column = open_.pop()
            region.append((row, column))
            around = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
            open_ += [place for place in around if place in left]
            left -= {*around}
        found.append(region)
    return found


images = hnp.arrays(np.float32, (2, 5, 6), elements=st.sampled_from([0.0, 0.2, 0.5, 0.9]))


@settings(max_examples=80)
@given(images, st.integers(1, 3), st.sampled_from([None, 0.6]))
def test_regions_are_what_hangs_together(
    output: np.ndarray, side: int, score: float | None
) -> None:
    wanted = []
    for image in output:
        boxes = set()
        for region in flooded(image, 0.3):
            rows, columns = zip(*region, strict=True)
            box = min(rows), min(columns), max(rows) + 1, max(columns) + 1
            mean = np.mean([image[place] for place in region], dtype=np.float64)
            if min(box[2] - box[0], box[3] - box[1]) >= side and mean >= (score or 0):
                boxes.add(box)
        wanted.append(boxes)
    found = regions(output, 0.3, side, score)
    assert [{tuple(box) for box in boxes.tolist()} for boxes in found] == wanted


def boxes(*items: tuple[int, int, int, int]) -> Regions:
    return [np.array(items, np.int64).reshape(-1, 4)]


def test_regions_agree_where_half_of_both_is_shared() -> None:
    one = boxes((0, 0, 4, 4), (6, 0, 8, 9))
    assert region_agreement(one, one) == 1.0
    assert region_agreement(boxes((0, 0, 4, 8)), boxes((0, 0, 4, 4))) == 1.0
    assert region_agreement(boxes((0, 0, 4, 9)), boxes((0, 0, 4, 4))) == 0.0
    assert region_agreement(boxes((0, 0, 4, 4)), one) == pytest.approx(2 / 3)
    assert region_agreement(boxes(), one) == 0.0
    assert region_agreement(boxes(), boxes()) == 1.0


def test_one_region_in_place_of_two_is_none_of_them() -> None:
    """What a mask's overlap doesn't see: one element joins two lines of text."""
    limit = AccuracyLimit(
        "samples", min_mask_agreement=0.9, min_region_agreement=1.0, mask_threshold=0.3
    )
    expected = np.full((1, 1, 9, 20), 0.9, np.float32)
    expected[..., 4, :] = 0.0
    joined = expected.copy()
    joined[..., 4, 3] = 0.31
    reached = closeness({"y": joined}, {"y": expected}, limit)
    assert reached.mask_agreement > 0.99
    assert reached.region_agreement == 0.0
    assert not reached.meets(limit)
    assert closeness({"y": expected}, {"y": expected}, limit).meets(limit)
    assert reached.words(limit).endswith("0.00% of regions found")
    assert closeness({"y": np.ones(3)}, {"y": np.ones(3)}, limit).region_agreement == 1.0
