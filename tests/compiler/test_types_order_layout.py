"""Precision, Order and AssignLayouts: types, order, layouts, and what stands where they change."""

from __future__ import annotations

import numpy as np
import pytest

from stages.compiler.passes.fuse import Fuse
from stages.compiler.passes.layout import AssignLayouts
from stages.compiler.passes.order import Order
from stages.compiler.passes.precision import Precision
from tests.compiler.passing import Data, draft_of, run_pass, tidy
from tests.compiler.specs import hardware

CONV = "{dilations=[1,1], group=1, pads=[1,1,1,1], strides=[1,1]}"


def precise(text: str, name: str = "npu_tiny", data: Data | None = None):
    return run_pass(Precision(), text, data, spec=hardware(name), tolerance=5e-3)


def test_the_device_computes_in_halves_between_casts() -> None:
    ran = precise(
        """
        input %x : f32[2,8]
        const %w : f32[8,4]
        group y on tensor_core
          %y : f32[2,4] = matmul(%x, %w)
        output %y
        """
    )
    assert ran.text == tidy(
        """
        input %x : f32[2,8]
        const %w.f16 : f16[8,4]
        group cast.x.f16 on vector
        %x.f16 : f16[2,8] = cast(%x) # cast.x.f16
        group y on tensor_core
        %y.f16 : f16[2,4] = matmul(%x.f16, %w.f16) # y
        group cast.y on vector
        %y : f32[2,4] = cast(%y.f16) # cast.y
        output %y
        """
    )


def test_a_host_group_keeps_the_model_s_type_and_casts_for_itself() -> None:
    ran = precise(
        """
        input %x : f32[2,8]
        const %k : f32[8]
        group a on vector
          %a : f32[2,8] = relu(%x)
        group b on host because "no reason"
          %b : f32[2,8] = add(%a, %k)
        group y on vector
          %y : f32[2,8] = neg(%b)
        output %y
        """
    )
    assert ran.text == tidy(
        """
        input %x : f32[2,8]
        const %k : f32[8]
        group cast.x.f16 on vector
        %x.f16 : f16[2,8] = cast(%x) # cast.x.f16
        group a on vector
        %a : f16[2,8] = relu(%x.f16)
        group b on host because "no reason"
        %b.a.f32 : f32[2,8] = cast(%a) # cast.b.a.f32
        %b : f32[2,8] = add(%b.a.f32, %k)
        group cast.b.f16 on vector
        %b.f16 : f16[2,8] = cast(%b) # cast.b.f16
        group y on vector
        %y.f16 : f16[2,8] = neg(%b.f16) # y
        group cast.y on vector
        %y : f32[2,8] = cast(%y.f16) # cast.y
        output %y
        """
    )


def test_one_cast_serves_every_reader() -> None:
    ran = precise(
        """
        input %x : f32[4]
        group a on vector
          %a : f32[4] = relu(%x)
        group b on vector
          %b : f32[4] = neg(%x)
        output %a
        output %b
        """
    )
    assert ran.text.count("cast(%x)") == 1


def test_a_view_has_the_type_of_what_it_shows() -> None:
    ran = precise(
        """
        input %x : f32[4]
        group a on vector
          %a : f32[4] = relu(%x)
        group y on none
          %y : f32[2,2] = reshape(%a) {shape=[2,2]}
        output %y
        """
    )
    assert "%y.f16 : f16[2,2] = reshape(%a)" in ran.text
    assert "%y : f32[2,2] = cast(%y.f16)" in ran.text


def test_a_cast_that_the_device_lacks_is_the_host_s() -> None:
    ran = precise(
        """
        input %x : f64[4]
        group a on vector
          %a : f64[4] = relu(%x)
        output %a
        """
    )
    assert [group.engine for group in ran.after.recipe.groups] == ["host", "vector", "host"]
    assert "f64" in ran.after.recipe.groups[0].reason


def test_without_a_float_unit_floats_stay() -> None:
    text = """
        input %x : f32[4]
        group y on host because "no float unit"
          %y : f32[4] = relu(%x)
        output %y
        """
    assert precise(text, "ethos_u65_512").text == tidy(text)


def test_scales_stay_as_the_model_gives_them() -> None:
    ran = precise(
        """
        input %x : f32[4]
        const %s : f32[]
        const %z : i8[]
        group q on vector
          %q : i8[4] = quantize(%x, %s, %z) {axis=-1}
        group y on vector
          %y : f32[4] = dequantize(%q, %s, %z) {axis=-1}
        output %y
        """,
        data={"s": 0.1, "z": 0},
    )
    assert "const %s : f32[]" in ran.text
    assert "%q : i8[4] = quantize(%x, %s, %z)" in ran.text  # reads f32: the device takes it


def test_constants_beyond_the_range_of_halves_are_noted() -> None:
    step, spec = Precision(), hardware("npu_tiny")
    text = """
        input %x : f32[4]
        const %k : f32[4]
        group y on vector
          %y : f32[4] = add(%x, %k)
        output %y
        """
    data = np.array([1.0, -3.4e38, np.inf, 7e4], np.float32)
    after = step.run(draft_of(text, {"k": data}, spec), spec)
    assert after.constants["k.f16"].tolist() == [1.0, -32768.0, np.inf, 32768.0]
    assert after.recipe.notes == ("constant k: 2 elements beyond f16 became 32768",)


TWO_SIDES = """
    input %x : f32[4]
    group h1 on host because "first"
      %h1 : f32[4] = sin(%x)
    group d1 on vector
      %d1 : f32[4] = relu(%x)
    group h2 on host because "second; first"
      %h2 : f32[4] = cos(%h1)
    group d2 on vector
      %d2 : f32[4] = neg(%d1)
    group y on vector
      %y : f32[4] = add(%h2, %d2)
    output %y
    """


def test_host_groups_that_follow_each_other_become_one() -> None:
    assert run_pass(Order(), TWO_SIDES).text == tidy(
        """
        input %x : f32[4]
        group d1 on vector
        %d1 : f32[4] = relu(%x)
        group d2 on vector
        %d2 : f32[4] = neg(%d1)
        group h1 on host because "first; second"
        %h1 : f32[4] = sin(%x)
        %h2 : f32[4] = cos(%h1)
        group y on vector
        %y : f32[4] = add(%h2, %d2)
        output %y
        """
    )


def test_an_order_that_is_good_stays() -> None:
    once = run_pass(Order(), TWO_SIDES).after
    assert Order().run(once, hardware("npu_tiny")) == once


def laid_out(text: str, name: str = "npu_tiny"):
    return run_pass(AssignLayouts(), text, spec=hardware(name), tolerance=1e-2)


def test_a_core_with_an_image_mode_reads_few_channels_as_they_come() -> None:
    text = laid_out(TO_CONV + "output %c", "rk3588_npu").text
    assert "relayout.c" in text
    assert "relayout.x" not in text


TO_CONV = f"""
    input %x : f16[1,3,6,6]
    const %w : f16[8,3,3,3]
    group c on tensor_core
      %c : f16[1,8,6,6] = conv(%x, %w) {CONV}
    """


@pytest.mark.parametrize(
    ("name", "layout"),
    [("npu_tiny", "nc1hwc2/8"), ("nvidia_t4", "nhwc")],
)
def test_a_contraction_gets_the_layout_of_its_device(name: str, layout: str) -> None:
    quoted = f'%"x.{layout}"' if "/" in layout else f"%x.{layout}"
    output = f'%"c.{layout}"' if "/" in layout else f"%c.{layout}"
    label = f'"relayout.x.{layout}"' if "/" in layout else f"relayout.x.{layout}"
    assert laid_out(TO_CONV + "output %c", name).text == tidy(
        f"""
        input %x : f16[1,3,6,6]
        const %w : f16[8,3,3,3]
        group {label} on vector
        {quoted} : f16[1,3,6,6] {layout} = relayout(%x) # {label}
        group c on tensor_core
        {output} : f16[1,8,6,6] {layout} = conv({quoted}, %w) {CONV} # c
        group relayout.c on vector
        %c : f16[1,8,6,6] = relayout({output}) # relayout.c
        output %c
        """
    )


def layout_of(rest: str, value: str = "y", name: str = "npu_tiny") -> str:
    """The layout of %y (returned under another name) behind a convolution."""
    after = laid_out(f"{TO_CONV}{rest}", name).after
    return str(after.recipe.layout(value))


@pytest.mark.parametrize(
    ("operator", "shape", "layout"),
    [
        ("relu(%c)", "[1,8,6,6]", "nc1hwc2/8"),
        ("reduce_mean(%c) {axes=[2,3], keepdims=1}", "[1,8,1,1]", "nc1hwc2/8"),
        ("reduce_mean(%c) {axes=[2,3], keepdims=0}", "[1,8]", "row_major"),
        ("pad(%c) {mode=edge, pads=[0,0,1,1,0,0,1,1], value=0.0}", "[1,8,8,8]", "row_major"),
        ("softmax(%c) {axis=1}", "[1,8,6,6]", "row_major"),
        (
            "slice(%c) {starts=[0,0,1,0], steps=[1,1,1,1], stops=[1,8,6,6]}",
            "[1,8,5,6]",
            "nc1hwc2/8",
        ),
        (
            "slice(%c) {starts=[0,4,0,0], steps=[1,1,1,1], stops=[1,8,6,6]}",
            "[1,4,6,6]",
            "row_major",
        ),
        (
            "slice(%c) {starts=[0,0,0,0], steps=[1,2,1,1], stops=[1,8,6,6]}",
            "[1,4,6,6]",
            "row_major",
        ),
        (
            "slice(%c) {starts=[0,0,5,0], steps=[1,1,-1,1], stops=[1,8,-1,6]}",
            "[1,8,6,6]",
            "row_major",
        ),
        ("concat(%c, %c) {axis=1}", "[1,16,6,6]", "row_major"),
        ("concat(%x, %c) {axis=1}", "[1,11,6,6]", "row_major"),
        ("transpose(%c) {permutation=[0,1,3,2]}", "[1,8,6,6]", "row_major"),
    ],
)
def test_what_follows_keeps_the_layout_where_its_kind_can(
    operator: str, shape: str, layout: str
) -> None:
    """But for what makes more of it: the output, row-major, is then converted before it grows."""
    kind = operator.partition("(")[0]
    engine = "dma" if kind in ("slice", "concat") else "vector"
    rest = f"""
        group y on {engine}
          %y : f16{shape} = {operator}
        group z on vector
          %z : f16{shape} = {"softmax(%y) {axis=1}" if len(shape) > 6 else "neg(%y)"}
        output %z
        """
    assert layout_of(rest) == layout


def test_a_layout_that_gives_the_same_bytes_needs_no_conversion() -> None:
    rest = """
        group m on vector
          %m : f16[1,8,1,1] = reduce_mean(%c) {axes=[2,3], keepdims=1}
        group y on none
          %y : f16[1,8] = reshape(%m) {shape=[1,8]}
        output %y
        """
    after = laid_out(TO_CONV + rest).after
    kinds = [op.kind for op in after.graph.operators]
    assert kinds == ["relayout", "conv", "reduce_mean", "reshape"]


def test_a_value_is_converted_once_for_all_its_readers() -> None:
    rest = f"""
        group d on tensor_core
          %d : f16[1,8,6,6] = conv(%x, %w) {CONV}
        group y on vector
          %y : f16[1,8,6,6] = add(%c, %d)
        output %y
        """
    after = laid_out(TO_CONV + rest).after
    kinds = [op.kind for op in after.graph.operators]
    assert kinds == ["relayout", "conv", "conv", "add", "relayout"]


def test_host_groups_read_row_major() -> None:
    rest = """
        group y on host because "no reason"
          %y : f16[1,8,6,6] = neg(%c)
        output %y
        """
    after = laid_out(TO_CONV + rest).after
    assert [op.kind for op in after.graph.operators] == ["relayout", "conv", "relayout", "neg"]
    assert str(after.recipe.layout("y")) == "row_major"


def test_all_passes_in_a_row_keep_the_meaning() -> None:
    text = f"""
        input %x : f32[1,3,6,6]
        const %w : f32[8,3,3,3]
        %c : f32[1,8,6,6] = conv(%x, %w) {CONV}
        %r : f32[1,8,6,6] = relu(%c)
        %y : f32[1,8] = reduce_mean(%r) {{axes=[2,3], keepdims=0}}
        output %y
        """
    spec = hardware("npu_tiny")
    fused = run_pass(Fuse(), text).after
    last = fused
    for step in (Precision(), Order(), AssignLayouts()):
        last = step.run(last, spec)
    engines = [str(group.engine) for group in last.recipe.groups]
    assert engines == ["vector", "vector", "tensor_core", "vector", "vector", "vector"]
