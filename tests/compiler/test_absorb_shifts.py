"""AbsorbShifts: a sum with a number between quantised values is another zero point."""

from __future__ import annotations

import numpy as np
import pytest

from stages.compiler.passes.absorb_shifts import AbsorbShifts
from stages.compiler.pipeline import rewrites
from stages.compiler.quantization import ActivationScales, Quantization, Range
from stages.recipe.kinds import Kind
from stages.tensors import Array
from tests.compiler.passing import Ran, run_pass

BLOCK = """
    input %x : f32[1,2,5,5]
    const %s1 : f32[]
    const %z1 : i8[]
    const %s2 : f32[]
    const %z2 : i8[]
    const %d1 : f32[]
    const %c : f32[]
    {weights}
    %h : f32[1,2,5,5] = hard_swish(%x)
    %hq : i8[1,2,5,5] = quantize(%h, %s1, %z1) {{axis=-1}}
    %hf : f32[1,2,5,5] = dequantize(%hq, %d1, %z1) {{axis=-1}}
    %v : f32[1,2,5,5] = {sum}
    %vq : i8[1,2,5,5] = quantize(%v, %s2, %z2) {{axis=-1}}
    %vf : f32[1,2,5,5] = dequantize(%vq, %s2, %z2) {{axis=-1}}
    {reader}
    output %y
    """
ADD = "add(%hf, %c)"
NEG = "%y : f32[1,2,5,5] = neg(%vf)"
CONV = (
    "%y : f32[1,3,5,5] = conv(%vf, %w{bias}) "
    "{{dilations=[1,1], group=1, pads=[{pad},{pad},{pad},{pad}], strides=[1,1]}}"
)
STEP = 0.05
DATA = {"s1": STEP, "d1": STEP, "z1": -100, "s2": STEP, "z2": -50}


def shift(
    addend: float, sum_: str = ADD, reader: str = NEG, weights: str = "", tolerance: float = 0.02
) -> Ran:
    text = BLOCK.format(sum=sum_, reader=reader, weights=weights)
    return run_pass(AbsorbShifts(), text, {**DATA, "c": addend}, tolerance=tolerance)


def number(ran: Ran, kind: Kind, place: int) -> float:
    operator = next(op for op in ran.after.graph.operators if op.kind is kind)
    return float(ran.after.constants[operator.inputs[place]])


@pytest.mark.parametrize("steps", [-12, -3, 0, 1, 7, 20])
def test_a_shift_of_whole_steps_moves_the_zero_point(steps: int) -> None:
    ran = shift(steps * STEP)
    assert ran.kinds == ["hard_swish", "quantize", "dequantize", "neg"]
    assert number(ran, Kind.QUANTIZE, 2) - number(ran, Kind.DEQUANTIZE, 2) == steps
    assert number(ran, Kind.DEQUANTIZE, 1) == pytest.approx(STEP)


@pytest.mark.parametrize("addend", [0.43, -0.93, 2.481])
def test_a_long_shift_makes_the_steps_a_little_larger(addend: float) -> None:
    ran = shift(addend, tolerance=0.05)
    assert "add" not in ran.kinds
    scale = number(ran, Kind.DEQUANTIZE, 1)
    steps = number(ran, Kind.QUANTIZE, 2) - number(ran, Kind.DEQUANTIZE, 2)
    assert steps * scale == pytest.approx(addend, rel=1e-6)
    assert STEP <= scale <= STEP * 9 / 8
    # the ends of the range before lie within the new one, but for the rounded zero point
    zero = number(ran, Kind.DEQUANTIZE, 2)
    assert (-128 - zero) * scale <= (-128 + 50) * STEP + scale / 2
    assert (127 - zero) * scale >= (127 + 50) * STEP - scale / 2


def test_a_number_that_was_multiplied_on_the_way_stays_in_the_scale() -> None:
    text = BLOCK.format(sum=ADD, reader=NEG, weights="")
    data = {**DATA, "d1": 2 * STEP, "c": 4 * STEP}  # v = 2 h + 4 steps
    ran = run_pass(AbsorbShifts(), text, data, tolerance=0.02)
    assert "add" not in ran.kinds
    assert number(ran, Kind.QUANTIZE, 1) == pytest.approx(STEP / 2)


def test_a_difference_is_a_sum_of_the_opposite() -> None:
    ran = shift(3 * STEP, "sub(%hf, %c)")
    assert number(ran, Kind.QUANTIZE, 2) - number(ran, Kind.DEQUANTIZE, 2) == -3


@pytest.mark.parametrize("bias", ["", ", %b"])
@pytest.mark.parametrize("addend", [0.3 * STEP, 2.5 * STEP, -4.4 * STEP])
def test_what_is_left_of_a_short_shift_goes_into_the_bias_of_a_convolution(
    bias: str, addend: float
) -> None:
    weights = "const %w : f32[3,2,1,1]" + ("\n    const %b : f32[3]" if bias else "")
    reader = CONV.format(bias=bias, pad=0)
    # without padding the bias makes it exact but for where the rounding of each value falls
    ran = shift(addend, reader=reader, weights=weights, tolerance=0.05)
    assert ran.kinds == ["hard_swish", "quantize", "dequantize", "conv"]
    before, after = ran.before.constants, ran.after.constants
    conv = ran.after.graph.operators[-1]
    rest = addend - round(addend / STEP) * STEP
    old = np.asarray(before["b"]) if bias else np.zeros(3)
    wanted = old + rest * np.asarray(before["w"]).sum(axis=(1, 2, 3))
    found = np.asarray(after[conv.inputs[2]], np.float64)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_the_mean_error_of_a_corrected_convolution_is_none() -> None:
    weights = "const %w : f32[3,2,1,1]\n    const %b : f32[3]"
    text = BLOCK.format(sum=ADD, reader=CONV.format(bias=", %b", pad=0), weights=weights)
    data: dict[str, Array | float] = {
        **DATA,
        "c": 2.5 * STEP,
        "w": np.ones((3, 2, 1, 1)),
        "b": np.zeros(3),
    }
    ran = run_pass(AbsorbShifts(), text, data, tolerance=0.05)
    conv = ran.after.graph.operators[-1]
    # -0.5 or 0.5 of a step, over two channels of weight one
    found = np.abs(np.asarray(ran.after.constants[conv.inputs[2]], np.float64))
    assert found == pytest.approx([STEP] * 3, rel=1e-4)


def test_a_short_shift_stays_where_no_bias_can_take_its_rest() -> None:
    assert "add" in shift(2.5 * STEP).kinds
    weights = "const %w : f32[3,2,1,1]\n    input %b : f32[3]"
    reader = CONV.format(bias=", %b", pad=0)
    assert "add" in shift(2.5 * STEP, reader=reader, weights=weights).kinds


@pytest.mark.parametrize(
    ("sum_", "reader"),
    [
        (ADD, "%y : i8[1,2,5,5] = identity(%vq)"),  # the model's own output keeps its numbers
        ("mul(%hf, %c)", NEG),
        ("sub(%c, %hf)", NEG),
        (ADD, "%y : f32[1,2,5,5] = add(%vf, %v)"),  # the sum itself is read
        (ADD, "%y : f32[1,2,5,5] = add(%vf, %hf)"),
    ],
)
def test_what_is_no_sum_between_two_integers_stays(sum_: str, reader: str) -> None:
    ran = shift(9.5 * STEP, sum_, reader)
    assert ran.kinds.count("quantize") == 2


def test_a_zero_point_that_the_type_lacks_leaves_the_sum() -> None:
    assert "add" in shift(200 * STEP).kinds
    assert "add" not in shift(150 * STEP, tolerance=1.0).kinds


def test_a_sum_of_another_shape_stays() -> None:
    text = BLOCK.format(sum=ADD, reader=NEG, weights="").replace(
        "const %c : f32[]", "const %c : f32[1,1,1,1,1]"
    )
    wide = text.replace("%v : f32[1,2,5,5]", "%v : f32[1,1,2,5,5]")
    for name, kind in (("vq", "i8"), ("vf", "f32"), ("y", "f32")):
        wide = wide.replace(f"%{name} : {kind}[1,2,5,5]", f"%{name} : {kind}[1,1,2,5,5]")
    assert "add" in run_pass(AbsorbShifts(), wide, {**DATA, "c": 10 * STEP}).kinds


@pytest.mark.parametrize(
    ("scales", "ranges", "absorbs"),
    [
        (ActivationScales.ASYMMETRIC, {"v": Range(-1.0, 1.0)}, True),
        (ActivationScales.SYMMETRIC, {"v": Range(-1.0, 1.0)}, False),
        (ActivationScales.ASYMMETRIC, {}, False),  # a model that comes quantised
    ],
)
def test_only_zero_points_that_the_compiler_chose_are_moved(
    scales: ActivationScales, ranges: dict[str, Range], absorbs: bool
) -> None:
    quantization = Quantization(ranges, frozenset(), activations=scales)
    names = [step.name for step in rewrites(quantization, None)]
    assert ("absorb_shifts" in names) == absorbs
    assert "absorb_shifts" not in [step.name for step in rewrites(None, None)]
