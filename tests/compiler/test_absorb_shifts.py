"""AbsorbShifts: a sum with a number becomes another zero point, its rest another bias."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.compiler.passes.absorb_shifts import AbsorbShifts
from stages.compiler.passes.quantize import QuantizeActivations
from stages.compiler.passes.scales import AbsorbScales
from stages.compiler.quantization import Quantization, Range
from stages.recipe.semantics import interpret
from tests.compiler.passing import draft_of, random_array, run_pass
from tests.compiler.specs import hardware

NONE = Quantization({}, frozenset())


def text_of(shift: str = "add(%f, %t)", pads: str = "0,0,0,0", extra: str = "") -> str:
    size = 6 if pads == "1,1,1,1" else 4
    return f"""
        input %x : i8[1,3,6,6]
        const %s : f32[]
        const %z : i8[]
        const %t : f32[]
        const %w : f32[2,3,3,3]
        const %b : f32[2]
        %f : f32[1,3,6,6] = dequantize(%x, %s, %z) {{axis=-1}} # d
        %v : f32[1,3,6,6] = {shift} # shift
        %y : f32[1,2,{size},{size}] = conv(%v, %w, %b) {{dilations=[1,1], group=1, pads=[{pads}], strides=[1,1]}}
        output %y{extra}
        """  # noqa: E501


@given(st.floats(-2, 2), st.sampled_from(["add(%f, %t)", "add(%t, %f)", "sub(%f, %t)"]))
def test_a_shift_vanishes_exactly_where_nothing_is_padded(shift: float, operands: str) -> None:
    data = {"s": 0.02, "z": 10, "t": shift}
    ran = run_pass(AbsorbShifts(NONE), text_of(operands), data, tolerance=1e-5)
    steps = shift / 0.02 * (-1 if "sub" in operands else 1)
    if -127 <= 10 - steps <= 126:
        assert ran.kinds == ["dequantize", "conv"]
        assert abs(ran.after.constants["shift.zero"] - (10 - steps)) < 0.501
    elif not -129 <= 10 - steps <= 128:
        assert "conv" in ran.kinds
        assert len(ran.kinds) == 3  # zero would be no integer any more


def test_whole_steps_are_exact_at_the_edge_too() -> None:
    data = {"s": 0.25, "z": -3, "t": 1.75}
    ran = run_pass(AbsorbShifts(NONE), text_of(pads="1,1,1,1"), data, tolerance=1e-6)
    assert ran.after.constants["shift.zero"] == -10
    convolution = next(op for op in ran.after.graph.operators if op.kind == "conv")
    bias = ran.after.constants[convolution.inputs[2]]
    assert np.array_equal(bias, ran.before.constants["b"])


@pytest.mark.parametrize(
    "extra",
    ["\n        output %v", "\n        %q : f32[1,3,6,6] = sigmoid(%v)\n        output %q"],
)
def test_what_others_read_keeps_its_shift(extra: str) -> None:
    ran = run_pass(
        AbsorbShifts(NONE), text_of(extra=extra), {"s": 0.02, "z": 0, "t": 0.5}, tolerance=0.0
    )
    assert "add" in ran.kinds


def test_what_the_file_keeps_in_float_keeps_its_shift() -> None:
    kept = AbsorbShifts(Quantization({}, frozenset({"shift"})))
    data = {"s": 0.02, "z": 0, "t": 0.5}
    assert "add" in run_pass(kept, text_of(), data, tolerance=0.0).kinds


CHAIN = """
    input %x : f32[1,3,6,6]
    const %a : f32[]
    const %t : f32[]
    const %w : f32[2,3,1,1]
    %h : f32[1,3,6,6] = hard_swish(%x)
    %m : f32[1,3,6,6] = mul(%h, %a) # m
    %v : f32[1,3,6,6] = add(%m, %t) # t
    %y : f32[1,2,6,6] = conv(%v, %w) {dilations=[1,1], group=1, pads=[0,0,0,0], strides=[1,1]}
    output %y
    """


def test_a_scale_and_a_shift_cost_no_second_rounding() -> None:
    """Once rounded the error is at most half a step of `h`, times what the weights make of it."""
    spec = hardware("rk3588_npu")
    draft = before = draft_of(CHAIN, {"a": 0.5, "t": -0.31})
    ranges = {"h": Range(-0.375, 4.0), "v": Range(-0.5, 1.7)}
    quantization = Quantization(ranges, frozenset())
    steps = (QuantizeActivations(quantization), AbsorbScales(), AbsorbShifts(quantization))
    for step in steps:
        draft = step.run(draft, spec)
    assert [str(op.kind) for op in draft.graph.operators] == [
        "hard_swish", "quantize", "dequantize", "conv",
    ]  # fmt: skip
    feeds = {"x": random_array(before.graph.types["x"], np.random.default_rng(5))}
    wanted = interpret(before.graph, before.constants, feeds)["y"]
    found = interpret(draft.graph, draft.constants, feeds)["y"]
    reach = np.abs(before.constants["w"]).sum(axis=(1, 2, 3)).reshape(1, 2, 1, 1)
    half_a_step = 0.5 * (4.375 / 255) / 2
    assert (np.abs(found - wanted) <= half_a_step * reach + 1e-5).all()
