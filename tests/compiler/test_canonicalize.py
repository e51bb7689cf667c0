"""Canonicalize: what does nothing goes, and each meaning has one form."""

from __future__ import annotations

import numpy as np
import pytest

from stages.compiler.passes.canonicalize import Canonicalize
from stages.recipe.kinds import Kind
from tests.compiler.passing import Data, draft_of, run_pass, tidy
from tests.compiler.specs import hardware


def check(before: str, after: str, data: Data | None = None) -> None:
    assert run_pass(Canonicalize(), before, data).graph_text == tidy(after)


@pytest.mark.parametrize(
    "nothing",
    [
        "identity(%a)",
        "reshape(%a) {shape=[2,3]}",
        "expand(%a) {shape=[2,3]}",
        "cast(%a)",
        "concat(%a) {axis=0}",
        "slice(%a) {starts=[0,0], steps=[1,1], stops=[2,3]}",
        "transpose(%a) {permutation=[0,1]}",
        "clip(%a) {max=inf, min=-inf}",
        'pad(%a) {mode="constant", pads=[0,0,0,0], value=0.0}',
    ],
)
def test_what_does_nothing_goes(nothing: str) -> None:
    check(
        f"""
        input %x : f32[2,3]
        %a : f32[2,3] = relu(%x)  # r
        %b : f32[2,3] = {nothing}  # nothing
        %y : f32[2,3] = neg(%b)  # n
        output %y
        """,
        """
        input %x : f32[2,3]
        %a : f32[2,3] = relu(%x)  # r
        %y : f32[2,3] = neg(%a)  # n
        output %y
        """,
    )


@pytest.mark.parametrize(
    ("something", "result"),
    [
        ("reshape(%x) {shape=[3,2]}", "f32[3,2]"),
        ("cast(%x)", "f16[2,3]"),
        ("slice(%x) {starts=[1,2], steps=[-1,-1], stops=[-1,-1]}", "f32[2,3]"),
        ("slice(%x) {starts=[0,0], steps=[1,2], stops=[2,3]}", "f32[2,2]"),
        ("transpose(%x) {permutation=[1,0]}", "f32[3,2]"),
        ("clip(%x) {max=inf, min=0.0}", "f32[2,3]"),
        ("pad(%x) {mode=constant, pads=[0,0,0,1], value=0.0}", "f32[2,4]"),
        ("expand(%x) {shape=[4,2,3]}", "f32[4,2,3]"),
    ],
)
def test_what_does_something_stays(something: str, result: str) -> None:
    text = f"input %x : f32[2,3]\n%y : {result} = {something}\noutput %y"
    check(text, text)


def test_an_output_behind_nothing_takes_its_name_from_the_operator_before() -> None:
    check(
        """
        input %x : f32[4]
        %a : f32[4] = relu(%x)  # r
        %b : f32[4] = identity(%a)  # i
        %y : f32[4] = identity(%b)  # j
        output %y
        """,
        """
        input %x : f32[4]
        %y : f32[4] = relu(%x)  # r
        output %y
        """,
    )


def test_an_output_that_is_an_input_or_another_output_keeps_an_identity() -> None:
    check(
        """
        input %x : f32[4]
        %a : f32[4] = relu(%x)  # r
        %y : f32[4] = reshape(%a) {shape=[4]}  # again
        %z : f32[4] = cast(%x)  # same
        output %a
        output %y
        output %z
        """,
        """
        input %x : f32[4]
        %a : f32[4] = relu(%x)  # r
        %y : f32[4] = identity(%a)  # again
        %z : f32[4] = identity(%x)  # same
        output %a
        output %y
        output %z
        """,
    )


def test_a_split_becomes_slices_and_an_unread_part_none() -> None:
    check(
        """
        input %x : f32[2,6]
        %a : f32[2,1], %b : f32[2,2], %c : f32[2,3] = split(%x) {axis=1, sizes=[1,2,3]}  # s
        output %a
        output %c
        """,
        """
        input %x : f32[2,6]
        %a : f32[2,1] = slice(%x) {starts=[0,0], steps=[1,1], stops=[2,1]} # s.a
        %c : f32[2,3] = slice(%x) {starts=[0,3], steps=[1,1], stops=[2,6]} # s.c
        output %a
        output %c
        """,
    )


def test_batch_norm_of_constants_becomes_a_product_and_a_sum() -> None:
    check(
        """
        input %x : f32[2,3,4,4]
        const %scale : f32[3]
        const %bias : f32[3]
        const %mean : f32[3]
        const %variance : f32[3]
        %y : f32[2,3,4,4] = batch_norm(%x, %scale, %bias, %mean, %variance) {epsilon=1e-05}  # bn
        output %y
        """,
        """
        input %x : f32[2,3,4,4]
        const %bn.factor : f32[3,1,1]
        const %bn.shift : f32[3,1,1]
        %bn.scaled : f32[2,3,4,4] = mul(%x, %bn.factor)  # bn.scale
        %y : f32[2,3,4,4] = add(%bn.scaled, %bn.shift)  # bn
        output %y
        """,
        {"variance": 0.5},
    )


def test_batch_norm_of_values_stays() -> None:
    text = """
        input %x : f32[2,3,4]
        input %scale : f32[3]
        const %bias : f32[3]
        const %mean : f32[3]
        const %variance : f32[3]
        %y : f32[2,3,4] = batch_norm(%x, %scale, %bias, %mean, %variance) {epsilon=1e-05}  # bn
        output %y
        """
    check(text, text, {"variance": 2.0})


@pytest.mark.parametrize(
    ("shape", "permutation", "result"),
    [
        ("[1,5,1]", "[1,0,2]", "[5,1,1]"),
        ("[2,1,3]", "[0,2,1]", "[2,3,1]"),
        ("[1,1,7,2]", "[2,0,1,3]", "[7,1,1,2]"),
    ],
)
def test_a_transpose_of_unit_axes_is_a_reshape(shape: str, permutation: str, result: str) -> None:
    check(
        f"""
        input %x : f32{shape}
        %y : f32{result} = transpose(%x) {{permutation={permutation}}}  # t
        output %y
        """,
        f"""
        input %x : f32{shape}
        %y : f32{result} = reshape(%x) {{shape={result}}}  # t
        output %y
        """,
    )


def test_dead_operators_and_unread_constants_go() -> None:
    check(
        """
        input %x : f32[4]
        const %c : f32[4]
        %a : f32[4] = add(%x, %c)  # dead
        %y : f32[4] = relu(%x)  # r
        output %y
        """,
        """
        input %x : f32[4]
        %y : f32[4] = relu(%x)  # r
        output %y
        """,
    )


@pytest.mark.parametrize("kind", ["add", "mul", "minimum", "maximum"])
def test_constants_of_commutative_kinds_come_last(kind: str) -> None:
    text = "input %x : f32[4]\nconst %k : f32[4]\n%y : f32[4] = {}\noutput %y"
    check(text.format(f"{kind}(%k, %x)"), text.format(f"{kind}(%x, %k)"))


@pytest.mark.parametrize("kind", ["sub", "div", "pow"])
def test_constants_of_other_kinds_stay_first(kind: str) -> None:
    text = f"input %x : f32[4]\nconst %k : f32[4]\n%y : f32[4] = {kind}(%k, %x)\noutput %y"
    check(text, text, {"k": 2.0})


@pytest.mark.parametrize(("pool", "kind"), [("average_pool", "mean"), ("max_pool", "max")])
def test_a_pool_over_everything_is_a_reduction(pool: str, kind: str) -> None:
    extra = "count_include_pad=0" if pool == "average_pool" else "dilations=[1,1]"
    check(
        f"""
        input %x : f32[1,3,4,5]
        %y : f32[1,3,1,1] = {pool}(%x) {{{extra}, kernel=[4,5], pads=[0,0,0,0], strides=[1,1]}}
        output %y
        """,
        f"""
        input %x : f32[1,3,4,5]
        %y : f32[1,3,1,1] = reduce_{kind}(%x) {{axes=[2,3], keepdims=1}}
        output %y
        """,
    )


def test_a_pool_over_less_stays() -> None:
    attributes = "{dilations=[1,1], kernel=[4,4], pads=[0,0,0,0], strides=[1,1]}"
    text = f"input %x : f32[1,3,4,5]\n%y : f32[1,3,1,2] = max_pool(%x) {attributes}\noutput %y"
    check(text, text)


def test_a_wide_mean_is_a_scaled_sum() -> None:
    check(
        """
        input %x : f32[1,80,80]
        %y : f32[1] = reduce_mean(%x) {axes=[1,2], keepdims=0} # mean
        output %y
        """,
        """
        input %x : f32[1,80,80]
        const %mean.share : f32[]
        %mean.total : f32[1] = reduce_sum(%x) {axes=[1,2], keepdims=0} # mean
        %y : f32[1] = mul(%mean.total, %mean.share) # mean.scale
        output %y
        """,
    )


def test_int32_becomes_float_by_a_dequantize() -> None:
    check(
        "input %x : i32[4]\n%y : f32[4] = cast(%x) # c\noutput %y",
        """
        input %x : i32[4]
        const %c.scale : f32[]
        %y : f32[4] = dequantize(%x, %c.scale) {axis=-1} # c
        output %y
        """,
    )


@pytest.mark.parametrize(
    ("comparison", "number", "stays"),
    [
        ("maximum(%a, %c)", -np.inf, False),
        ("maximum(%c, %a)", -np.inf, False),
        ("minimum(%a, %c)", np.inf, False),
        ("maximum(%a, %c)", np.inf, True),
        ("minimum(%a, %c)", -np.inf, True),
        ("maximum(%a, %c)", -3.4e38, True),
    ],
)
def test_a_bound_that_nothing_exceeds_goes(comparison: str, number: float, stays: bool) -> None:
    text = f"""
        input %x : f32[2,3]
        const %c : f32[]
        %a : f32[2,3] = relu(%x)
        %y : f32[2,3] = {comparison}
        output %y
        """
    draft = Canonicalize().run(draft_of(text, {"c": number}), hardware("npu_tiny"))
    kinds = [operator.kind for operator in draft.graph.operators]
    assert kinds == ([Kind.RELU, Kind(comparison.partition("(")[0])] if stays else [Kind.RELU])
