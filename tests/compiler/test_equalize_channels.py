"""EqualizeChannels: channels of a value are scaled, and floats compute what they did."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.compiler.passes.equalize_channels import EqualizeChannels, equalizable
from stages.compiler.quantization import Quantization
from stages.recipe.semantics import interpret
from tests.compiler.passing import draft_of, random_array, run_pass

ONE = "dilations=[1,1], pads=[1,1,1,1], strides=[1,1]"
READERS = {
    "dense": ("f32[5,4,3,3]", f"conv(%v, %u) {{{ONE}, group=1}}", "f32[2,5,6,6]"),
    "depthwise": ("f32[4,1,3,3]", f"conv(%v, %u) {{{ONE}, group=4}}", "f32[2,4,6,6]"),
    "grouped": ("f32[6,2,3,3]", f"conv(%v, %u) {{{ONE}, group=2}}", "f32[2,6,6,6]"),
    "transposed": (
        "f32[4,3,2,2]",
        "conv_transpose(%v, %u) {dilations=[1,1], group=2, output_padding=[0,0], "
        "pads=[0,0,0,0], strides=[2,2]}",
        "f32[2,6,12,12]",
    ),
}


def scaling(factors: tuple[float, ...]) -> EqualizeChannels:
    """The pass, for %v alone."""
    return EqualizeChannels(Quantization({}, frozenset(), channel_factors={"v": factors}))


def pair(reader: str, between: str = "", extra: str = "") -> str:
    """A convolution with a bias, an operator if any, and what reads that."""
    weights, read, result = READERS[reader]
    behind = {
        "relu": "%v : f32[2,4,6,6] = relu(%c)",
        "leaky_relu": "%v : f32[2,4,6,6] = leaky_relu(%c) {alpha=0.1}",
        "hard_swish": "%v : f32[2,4,6,6] = hard_swish(%c)",
    }
    made = "%c" if between in behind else "%v"
    return f"""
        input %x : f32[2,3,6,6]
        const %w : f32[4,3,3,3]
        const %b : f32[4]
        const %u : {weights}
        {made} : f32[2,4,6,6] = conv(%x, %w, %b) {{{ONE}, group=1}} # maker
        {behind.get(between, "")}
        %y : {result} = {read} # reader
        output %y{extra}
        """


@pytest.mark.parametrize("reader", list(READERS))
@pytest.mark.parametrize("between", ["", "relu", "leaky_relu"])
def test_what_is_scaled_computes_the_same(reader: str, between: str) -> None:
    text, factors = pair(reader, between), (0.01, 3.0, 0.5, 1.0)
    ran = run_pass(scaling(factors), text, tolerance=1e-6)
    feeds = {"x": random_array(ran.before.graph.types["x"], np.random.default_rng(1))}
    values = [
        interpret(draft.graph, draft.constants, feeds, keep=("v",))["v"]
        for draft in (ran.before, ran.after)
    ]
    scaled = values[0] / np.array(factors).reshape(1, 4, 1, 1)
    np.testing.assert_allclose(values[1], scaled, rtol=1e-4, atol=1e-4)


@given(st.lists(st.integers(-8, 0), min_size=4, max_size=4))
def test_powers_of_two_change_no_bit(exponents: list[int]) -> None:
    factors = tuple(2.0**exponent for exponent in exponents)
    for reader in READERS:
        run_pass(scaling(factors), pair(reader, "relu"), tolerance=0.0)


@pytest.mark.parametrize(
    "text",
    [
        pair("dense", "hard_swish"),
        pair("dense", extra="\n        output %v"),
        pair("dense", "relu", extra="\n        output %c"),
        pair("dense", extra="\n        %z : f32[2,4,6,6] = sigmoid(%v)\n        output %z"),
    ],
)
def test_what_a_factor_would_change_is_left_alone(text: str) -> None:
    ran = run_pass(scaling((0.5, 2.0, 1.0, 1.0)), text, tolerance=0.0)
    assert ran.after.constants.keys() == ran.before.constants.keys()
    assert not equalizable(ran.before)


def test_columns_of_a_product_are_channels_too() -> None:
    text = """
        input %x : f32[3,5]
        const %w : f32[5,4]
        const %b : f32[4]
        const %u : f32[4,2]
        %c : f32[3,4] = matmul(%x, %w, %b)
        %v : f32[3,4] = relu(%c)
        %y : f32[3,2] = matmul(%v, %u)
        output %y
        """
    ran = run_pass(scaling((0.5, 2.0, 4.0, 1.0)), text, tolerance=0.0)
    assert not ran.after.constants.keys() & {"w", "b", "u"}


@pytest.mark.parametrize("reader", ["dense", "grouped", "transposed"])
def test_the_weights_that_meet_a_channel(reader: str) -> None:
    draft = draft_of(pair(reader))
    (found,) = equalizable(draft)
    weights = np.abs(draft.constants["u"])
    meeting = {
        "dense": lambda channel: weights[:, channel],
        "grouped": lambda channel: weights[3 * (channel // 2) :, channel % 2][:3],
        "transposed": lambda channel: weights[channel],
    }[reader]
    assert found.weight_sizes is not None
    np.testing.assert_allclose(found.weight_sizes, [meeting(c).max() for c in range(4)])


def test_a_depthwise_reader_has_a_scale_for_each_channel() -> None:
    (found,) = equalizable(draft_of(pair("depthwise")))
    assert found.weight_sizes is None
