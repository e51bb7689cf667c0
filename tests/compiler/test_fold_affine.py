"""FoldAffine: constant scales and shifts behind a contraction go into its weights and bias."""

from __future__ import annotations

import numpy as np
import pytest

from stages.compiler.passes.canonicalize import Canonicalize
from stages.compiler.passes.fold_affine import FoldAffine
from tests.compiler.passing import Data, Ran, run_pass, tidy

CONV = "{dilations=[1,1], group=1, pads=[0,0,0,0], strides=[1,1]}"
SPREAD = "dilations=[1,1], output_padding=[0,0], pads=[0,0,0,0], strides=[1,1]"


def fold(text: str, data: Data | None = None) -> Ran:
    return run_pass(FoldAffine(), text, data, tolerance=1e-5)


def check_stays(text: str, data: Data | None = None) -> None:
    assert fold(text, data).graph_text == tidy(text)


def conv_then(rest: str, constants: str, bias: str = "") -> str:
    return f"""
        input %x : f32[2,3,6,6]
        const %w : f32[4,3,3,3]
        {"const %b : f32[4]" if bias else ""}
        {constants}
        %c : f32[2,4,4,4] = conv(%x, %w{", %b" if bias else ""}) {CONV} # conv
        {rest}
        output %y
        """


@pytest.mark.parametrize("bias", ["", "%b"])
@pytest.mark.parametrize("operands", ["%c, %k", "%k, %c"])
def test_a_scale_goes_into_weights_and_bias(bias: str, operands: str) -> None:
    ran = fold(conv_then(f"%y : f32[2,4,4,4] = mul({operands})", "const %k : f32[4,1,1]", bias))
    assert ran.graph_text == tidy(
        f"""
        input %x : f32[2,3,6,6]
        const %w.1 : f32[4,3,3,3]
        const %conv.bias : f32[4]
        %y : f32[2,4,4,4] = conv(%x, %w.1, %conv.bias) {CONV} # conv
        output %y
        """
    )


@pytest.mark.parametrize("rest", ["add(%c, %k)", "add(%k, %c)", "sub(%c, %k)"])
@pytest.mark.parametrize("shape", ["f32[1,4,1,1]", "f32[4,1,1]", "f32[]", "f32[1]"])
def test_a_shift_goes_into_the_bias(rest: str, shape: str) -> None:
    ran = fold(conv_then(f"%y : f32[2,4,4,4] = {rest}", f"const %k : {shape}"))
    assert ran.graph_text == tidy(
        f"""
        input %x : f32[2,3,6,6]
        const %w : f32[4,3,3,3]
        const %conv.bias : f32[4]
        %y : f32[2,4,4,4] = conv(%x, %w, %conv.bias) {CONV} # conv
        output %y
        """
    )


def test_conv_and_batch_norm_become_one_conv() -> None:
    text = conv_then(
        """
        %n : f32[2,4,4,4] = batch_norm(%c, %k, %k2, %k3, %v) {epsilon=1e-05} # bn
        %y : f32[2,4,4,4] = relu(%n)
        """,
        "const %k : f32[4]\nconst %k2 : f32[4]\nconst %k3 : f32[4]\nconst %v : f32[4]",
        "%b",
    )
    ran = run_pass(Canonicalize(), text, {"v": 0.3})
    after = FoldAffine().run(ran.after, spec=None)  # type: ignore[arg-type]
    assert [op.kind for op in after.graph.operators] == ["conv", "relu"]


def test_a_chain_of_scales_and_shifts_goes_whole() -> None:
    ran = fold(
        conv_then(
            """
            %p : f32[2,4,4,4] = mul(%c, %k)
            %q : f32[2,4,4,4] = add(%p, %k)
            %r : f32[2,4,4,4] = div(%q, %d)
            %y : f32[2,4,4,4] = sub(%r, %k)
            """,
            "const %k : f32[4,1,1]\nconst %d : f32[]",
        ),
        {"d": 3.0},
    )
    assert ran.kinds == ["conv"]


def test_a_scale_of_columns_goes_into_the_weights_of_a_matmul() -> None:
    ran = fold(
        """
        input %x : f32[2,5,6]
        const %w : f32[6,4]
        const %k : f32[4]
        %c : f32[2,5,4] = matmul(%x, %w)
        %y : f32[2,5,4] = mul(%c, %k)
        output %y
        """
    )
    assert ran.kinds == ["matmul"]


@pytest.mark.parametrize(
    ("rest", "constants"),
    [
        ("%y : f32[2,4,4,4] = mul(%c, %k)", "const %k : f32[4]"),
        ("%y : f32[2,4,4,4] = add(%c, %k)", "const %k : f32[4,4,1]"),
        ("%y : f32[2,4,4,4] = sub(%k, %c)", "const %k : f32[4,1,1]"),
        ("%y : f32[2,4,4,4] = div(%k, %c)", "const %k : f32[4,1,1]"),
        ("%y : f32[2,4,4,4] = add(%c, %c)", ""),
        ("%y : f32[3,2,4,4,4] = mul(%c, %k)", "const %k : f32[3,1,1,1,1]"),
        ("%y : f32[2,4,4,4] = maximum(%c, %k)", "const %k : f32[4,1,1]"),
    ],
    ids=["columns", "rows", "reversed sub", "reversed div", "twice", "wider", "maximum"],
)
def test_what_is_no_scale_of_channels_stays(rest: str, constants: str) -> None:
    check_stays(conv_then(rest, constants))


def test_a_result_that_is_read_twice_or_returned_stays() -> None:
    scale = "%y : f32[2,4,4,4] = mul(%c, %k)"
    text = conv_then(f"{scale}\n%z : f32[2,4,4,4] = relu(%c)", "const %k : f32[4,1,1]")
    check_stays(text + "output %z")
    check_stays(conv_then(scale, "const %k : f32[4,1,1]") + "output %c")


@pytest.mark.parametrize("divisor", [0.0, 1e-45, float("nan")])
def test_a_division_that_is_not_finite_stays(divisor: float) -> None:
    data = np.array([1, 2, divisor, 4], np.float32).reshape(4, 1, 1)
    text = conv_then("%y : f32[2,4,4,4] = div(%c, %k)", "const %k : f32[4,1,1]")
    assert [op.kind for op in FoldAffine().run(_draft(text, data), None).graph.operators] == [  # type: ignore[arg-type]
        "conv",
        "div",
    ]


def _draft(text: str, data: np.ndarray):
    from tests.compiler.passing import draft_of

    return draft_of(text, {"k": data})


def transposed(group: int) -> str:
    return f"""
        input %x : f32[1,4,3,3]
        const %w : f32[4,2,2,2]
        const %k : f32[{2 * group},1,1]
        %c : f32[1,{2 * group},4,4] = conv_transpose(%x, %w) {{dilations=[1,1], group={group}, \
output_padding=[0,0], pads=[0,0,0,0], strides=[1,1]}}
        %y : f32[1,{2 * group},4,4] = mul(%c, %k)
        output %y
        """


def test_a_transposed_convolution_takes_a_scale_but_for_groups() -> None:
    assert len(fold(transposed(1)).after.graph.operators) == 1
    check_stays(transposed(2))


def test_a_grouped_convolution_takes_a_scale() -> None:
    ran = fold(
        """
        input %x : f32[1,4,3,3]
        const %w : f32[8,2,1,1]
        const %k : f32[8,1,1]
        %c : f32[1,8,3,3] = conv(%x, %w) {dilations=[1,1], group=2, pads=[0,0,0,0], strides=[1,1]}
        %y : f32[1,8,3,3] = mul(%c, %k)
        output %y
        """
    )
    assert len(ran.after.graph.operators) == 1


@pytest.mark.parametrize("bias", ["f32[4,1]", "f32[4,4]", "f32[1,4]", "f32[4]", "f32[1,1]"])
def test_a_scale_keeps_the_meaning_of_every_bias(bias: str) -> None:
    fold(
        f"""
        input %x : f32[4,6]
        const %w : f32[6,4]
        const %b : {bias}
        const %k : f32[4]
        const %s : f32[1,4]
        %c : f32[4,4] = matmul(%x, %w, %b)
        %d : f32[4,4] = mul(%c, %k)
        %y : f32[4,4] = add(%d, %s)
        output %y
        """
    )


def test_weights_that_two_contractions_share_are_scaled_apart() -> None:
    ran = fold(
        """
        input %x : f32[2,6]
        const %w : f32[6,4]
        const %k : f32[4]
        %c : f32[2,4] = matmul(%x, %w)
        %y : f32[2,4] = mul(%c, %k)
        %z : f32[2,4] = matmul(%x, %w)
        output %y
        output %z
        """
    )
    assert len(ran.after.graph.operators) == 2


def test_integers_are_not_divided() -> None:
    check_stays(
        """
        input %x : i32[2,6]
        const %w : i32[6,4]
        const %k : i32[4]
        %c : i32[2,4] = matmul(%x, %w)
        %y : i32[2,4] = div(%c, %k)
        output %y
        """,
        {"k": 3},
    )
