"""What a task makes of an output, against loops over its elements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stages.quantizer.answers import argmax_misses, mask_agreement
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
