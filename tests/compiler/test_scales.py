"""HoistScales and AbsorbScales: products with numbers end in weights, or in scales."""

from __future__ import annotations

import pytest

from stages.compiler.passes.scales import AbsorbScales, HoistScales
from tests.compiler.passing import run_pass, tidy

ATTENTION = """
    input %x : f32[1,4,6]
    input %k : f32[1,2,3,4]
    const %w : f32[6,{columns}]
    const %b : f32[{columns}]
    const %c : f32[]
    %p : f32[1,4,{columns}] = matmul(%x, %w, %b)
    {cut}
    %r : f32[1,4,2,3] = reshape({source}) {{shape=[1,4,2,3]}}
    %q : f32[1,2,4,3] = transpose(%r) {{permutation=[0,2,1,3]}}
    {scores}
    output %y{more}
    """
BEFORE = """%s : f32[1,2,4,3] = mul(%q, %c)
    %y : f32[1,2,4,4] = matmul(%s, %k)"""
BEHIND = """%s : f32[1,2,4,4] = matmul(%q, %k)
    %y : f32[1,2,4,4] = div(%s, %c)"""
CUT = "%u : f32[1,4,6] = slice(%p) {starts=[0,0,6], steps=[1,1,1], stops=[1,4,12]}"
OTHER = "\n    %z : f32[1,4,6] = slice(%p) {starts=[0,0,0], steps=[1,1,1], stops=[1,4,6]}"


def text_of(scores: str, cut: str = "", more: str = "") -> str:
    columns = 12 if cut else 6
    source = "%u" if cut else "%p"
    return ATTENTION.format(columns=columns, cut=cut, source=source, scores=scores, more=more)


@pytest.mark.parametrize("scores", [BEFORE, BEHIND])
@pytest.mark.parametrize("cut", ["", CUT, CUT + OTHER])
def test_the_scale_of_attention_ends_in_the_projection(scores: str, cut: str) -> None:
    more = "\n    output %z" if OTHER in cut else ""
    ran = run_pass(HoistScales(), text_of(scores, cut, more), {"c": 0.25})
    assert not {"mul", "div"} & set(ran.kinds)


def test_a_part_that_others_read_too_stays_as_it_is() -> None:
    overlapping = OTHER.replace("stops=[1,4,6]", "stops=[1,4,9]").replace("[1,4,6]", "[1,4,9]")
    text = text_of(BEFORE, CUT + overlapping, "\n    output %z")
    assert "mul" in run_pass(HoistScales(), text, {"c": 0.25}).kinds
    for value in ("%q", "%r", "%p"):
        read = text_of(BEFORE, "", f"\n    output {value}")
        assert "mul" in run_pass(HoistScales(), read, {"c": 0.25}).kinds


def test_a_scale_of_a_quantised_value_is_another_scale() -> None:
    text = """
        input %x : i8[2,3]
        const %s : f32[]
        const %z : i8[]
        const %c : f32[]
        %f : f32[2,3] = dequantize(%x, %s, %z) {axis=-1} # d
        %y : f32[2,3] = mul(%f, %c)
        output %y
        """
    ran = run_pass(AbsorbScales(), text, {"s": 0.5, "z": 3, "c": 4.0})
    assert ran.graph_text == tidy(
        """
        input %x : i8[2,3]
        const %z : i8[]
        const %y.scale : f32[]
        %y : f32[2,3] = dequantize(%x, %y.scale, %z) {axis=-1}
        output %y
        """
    )
    assert ran.after.constants["y.scale"] == 2.0
    assert "mul" in run_pass(AbsorbScales(), text, {"s": 0.5, "z": 3, "c": -4.0}).kinds


def test_a_value_is_not_rounded_twice() -> None:
    text = """
        input %x : i8[2,3]
        const %s : f32[]
        const %t : f32[]
        %f : f32[2,3] = dequantize(%x, %s) {axis=-1} # d
        %q : i8[2,3] = quantize(%f, %t) {axis=-1}
        %g : f32[2,3] = dequantize(%q, %t) {axis=-1} # e
        %y : f32[2,3] = exp(%g)
        output %y
        """
    assert run_pass(AbsorbScales(), text, {"s": 0.01, "t": 0.0100001}, tolerance=0.1).kinds == [
        "dequantize",
        "exp",
    ]
    stored = text.replace("output %y", "output %y\noutput %q")
    assert "quantize" in run_pass(AbsorbScales(), stored, {"s": 0.01, "t": 0.02}).kinds
