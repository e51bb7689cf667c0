"""MeanFirst: a mean over an image goes before the pointwise convolution."""

from __future__ import annotations

import pytest

from stages.compiler.passes.mean_first import MeanFirst, made_means
from stages.quantizer.placement import calibrated_values, simplified, stored_values
from tests.compiler.passing import draft_of, run_pass
from tests.compiler.specs import hardware

BLOCK = """
    input %x : f32[1,4,6,6]
    const %w : f32[{out},4,{kernel},{kernel}]
    {bias}
    %y : f32[1,{out},{size},{size}] = conv(%x, %w{b}) {window}
    {mean}
    output %m
    {more}
    """
WINDOW = "{{dilations=[1,1], group=1, pads=[{p},{p},{p},{p}], strides=[{s},{s}]}}"
MEAN = "%m : f32[1,{out},1,1] = reduce_mean(%y) {{axes=[2,3], keepdims=1}}"
SUM = """const %c : f32[]
    %t : f32[1,{out},1,1] = reduce_sum(%y) {{axes=[2,3], keepdims=1}}
    %m : f32[1,{out},1,1] = mul(%t, %c)"""


def block(
    mean: str = MEAN,
    *,
    out: int = 8,
    kernel: int = 1,
    pad: int = 0,
    stride: int = 1,
    bias: bool = True,
    more: str = "output %y",
) -> str:
    size = (6 + 2 * pad - kernel) // stride + 1
    return BLOCK.format(
        out=out,
        kernel=kernel,
        size=size,
        bias=f"const %b : f32[{out}]" if bias else "",
        b=", %b" if bias else "",
        window=WINDOW.format(p=pad, s=stride),
        mean=mean.format(out=out),
        more=more,
    )


@pytest.mark.parametrize("mean", [MEAN, SUM])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("more", ["output %y", ""])
def test_the_mean_is_taken_of_fewer_channels(mean: str, bias: bool, more: str) -> None:
    ran = run_pass(MeanFirst(), block(mean, bias=bias, more=more), {"c": 1 / 36})
    reduction = next(op for op in ran.after.graph.operators if op.kind.startswith("reduce"))
    assert reduction.inputs == ("x",)
    assert ran.kinds.count("conv") == (2 if more else 1)  # without another reader the large is gone


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (block(out=7), {}),  # not half as many channels
        (block(kernel=3, pad=1), {}),
        (block(stride=2), {}),
        (block(MEAN.replace("[2,3]", "[2]").replace("1,1]", "1,6]")), {}),
        (block(MEAN.replace("reduce_mean", "reduce_max")), {}),
        (block(SUM), {"c": 1 / 35}),
        (block(SUM, more="output %t"), {"c": 1 / 36}),
    ],
)
def test_others_stay(text: str, data: dict[str, float]) -> None:
    ran = run_pass(MeanFirst(), text, data)
    reduction = next(op for op in ran.after.graph.operators if op.kind.startswith("reduce"))
    assert reduction.inputs == ("y",)


@pytest.mark.parametrize("name", ["ethos_u65_512", "rk3588_npu", "npu_tiny"])
def test_the_new_mean_is_stored_and_measured(name: str) -> None:
    spec = hardware(name)
    before = draft_of(block(), spec=spec)
    simple = simplified(before.graph, before.constants, spec)
    means = made_means(before.graph, simple)
    assert {key: mean.source for key, mean in means.items()} == {"x.mean": "x"}
    assert "x.mean" in stored_values(before.graph, simple, spec)
    assert "x.mean" in calibrated_values(before.graph, simple, spec)


def test_a_model_without_such_a_mean_makes_none() -> None:
    spec = hardware("npu_tiny")
    before = draft_of(block(out=4), spec=spec)
    assert not made_means(before.graph, simplified(before.graph, before.constants, spec))


def test_a_mean_passes_one_convolution() -> None:
    """Behind a second one nobody could say the range of what lies between."""
    text = """
        input %x : f32[1,2,6,6]
        const %w : f32[4,2,1,1]
        const %v : f32[8,4,1,1]
        %a : f32[1,4,6,6] = conv(%x, %w) {dilations=[1,1], group=1, pads=[0,0,0,0], strides=[1,1]}
        %y : f32[1,8,6,6] = conv(%a, %v) {dilations=[1,1], group=1, pads=[0,0,0,0], strides=[1,1]}
        %m : f32[1,8,1,1] = reduce_mean(%y) {axes=[2,3], keepdims=1}
        output %m
        output %y
        """
    ran = run_pass(MeanFirst(), text)
    reduction = next(op for op in ran.after.graph.operators if op.kind == "reduce_mean")
    assert reduction.inputs == ("a",)
