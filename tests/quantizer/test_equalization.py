"""Factors of channels, against the formulas worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.compiler.draft import Draft
from stages.quantizer.equalization import channel_factors, equalized
from tests.compiler.passing import draft_of

SIZES = np.array([8.0, 2.0, 0.5])


def draft(weights: np.ndarray) -> Draft:
    """A product %c f32[4,3] that a relu and the rows of `weights` read."""
    rows, columns = weights.shape
    text = f"""
        input %x : f32[4,5]
        const %w : f32[5,{rows}]
        const %u : f32[{rows},{columns}]
        %c : f32[4,{rows}] = matmul(%x, %w)
        %v : f32[4,{rows}] = relu(%c)
        %y : f32[4,{columns}] = matmul(%v, %u)
        output %y
        """
    return draft_of(text, {"u": weights})


def depthwise() -> Draft:
    one = "dilations=[1,1], pads=[0,0,0,0], strides=[1,1]"
    return draft_of(f"""
        input %x : f32[1,2,4,4]
        const %w : f32[3,2,1,1]
        const %u : f32[3,1,3,3]
        %v : f32[1,3,4,4] = conv(%x, %w) {{{one}, group=1}}
        %y : f32[1,3,2,2] = conv(%v, %u) {{{one}, group=3}}
        output %y
        """)


def factors_of(made: Draft, shape: tuple[int, ...], *sizes: np.ndarray) -> np.ndarray:
    """The factors of %v where samples hold its channels in these sizes, with either sign."""
    samples = [{"v": np.ones(shape) * size.reshape(shape) * -1} for size in sizes]
    found = channel_factors(made, ["v", "y"], lambda sample: sample, samples)
    assert found.keys() <= {"v"}
    return np.array(found.get("v", ()))


def test_channels_read_one_by_one_get_their_own_sizes() -> None:
    quiet = SIZES.reshape(1, 3, 1, 1) / 4
    found = factors_of(depthwise(), (1, 3, 1, 1), quiet, SIZES.reshape(1, 3, 1, 1))
    assert found == pytest.approx(SIZES / 8)  # over all samples; the largest stays what it was


def test_sizes_and_weights_are_balanced_where_channels_share_a_scale() -> None:
    weights = np.array([[1.0, -4.0], [1.0, 0.5], [-0.25, 0.1]])
    found = factors_of(draft(weights), (1, 3), SIZES)
    roots = np.sqrt(SIZES / [4, 1, 0.25])  # equal: each size over its largest weight is 2
    assert found == pytest.approx(roots / roots.max())
    uneven = factors_of(draft(np.ones((3, 2))), (1, 3), SIZES)
    assert uneven / uneven[0] == pytest.approx(np.sqrt(SIZES / 8), rel=0.01)


def test_no_factor_is_more_than_256_times_another() -> None:
    found = factors_of(depthwise(), (1, 3, 1, 1), np.array([1000.0, 1.0, 0.0]).reshape(1, 3, 1, 1))
    assert found == pytest.approx([1, 1 / 256, 1])  # what is always zero counts as the largest


@pytest.mark.parametrize("size", [0.0, np.inf, np.nan])
def test_nothing_is_scaled_by_what_says_nothing(size: float) -> None:
    sizes = np.full((1, 3, 1, 1), size)
    assert not factors_of(depthwise(), (1, 3, 1, 1), sizes).size


@given(st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3))
def test_the_largest_value_stays_as_large(sizes: list[float]) -> None:
    made = draft(np.array([[1.0], [0.1], [3.0]]))
    found = factors_of(made, (1, 3), np.array(sizes))
    assert max(sizes / found) == pytest.approx(max(sizes), rel=0.01)


def test_values_are_divided_along_their_channels() -> None:
    made = depthwise()
    values = {"v": np.ones((1, 3, 4, 4)), "y": np.ones((1, 3, 2, 2))}
    run = equalized(made, {"v": (1.0, 0.5, 0.25)}, lambda sample: values)
    found = run({})
    assert np.array_equal(found["v"][0, :, 0, 0], [1, 2, 4])
    assert np.array_equal(found["y"], values["y"])
