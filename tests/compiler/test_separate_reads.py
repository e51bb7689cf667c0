"""SeparateReads: a value that a group reads in two ways gets two names."""

from __future__ import annotations

import pytest

from stages.compiler.passes.separate_reads import SeparateReads
from tests.compiler.passing import Ran, run_pass, tidy

CONV = "{dilations=[1,1], group=1, pads=[1,1,1,1], strides=[1,1]}"


def separate(text: str) -> Ran:
    return run_pass(SeparateReads(), text, tolerance=1e-6)


def test_a_residual_of_its_own_operand_is_read_through_a_view() -> None:
    ran = separate(
        f"""
        input %x : f16[1,8,6,6]
        const %w : f16[8,8,3,3]
        group y on tensor_core
          %c : f16[1,8,6,6] = conv(%x, %w) {CONV}
          %s : f16[1,8,6,6] = add(%c, %x)
          %y : f16[1,8,6,6] = mul(%s, %x)
        output %y
        """
    )
    assert ran.text == tidy(
        f"""
        input %x : f16[1,8,6,6]
        const %w : f16[8,8,3,3]
        group view.x.again on none
        %x.again : f16[1,8,6,6] = identity(%x) # view.x.again
        group y on tensor_core
        %c : f16[1,8,6,6] = conv(%x, %w) {CONV}
        %s : f16[1,8,6,6] = add(%c, %x.again)
        %y : f16[1,8,6,6] = mul(%s, %x.again)
        output %y
        """
    )


def test_a_product_of_a_matrix_with_itself_reads_rows_and_columns() -> None:
    ran = separate(
        """
        input %x : f16[4,4]
        group y on tensor_core
          %y : f16[4,4] = matmul(%x, %x)
        output %y
        """
    )
    assert "%y : f16[4,4] = matmul(%x, %x.again)" in ran.text


def test_a_prologue_is_read_as_what_it_feeds() -> None:
    ran = separate(
        f"""
        input %q : i8[1,8,6,6]
        const %w : f32[8,8,3,3]
        const %s : f32[]
        group y on tensor_core
          %a : f32[1,8,6,6] = dequantize(%q, %s) {{axis=-1}}
          %b : f32[1,8,6,6] = dequantize(%q, %s) {{axis=-1}}
          %c : f32[1,8,6,6] = conv(%a, %w) {CONV}
          %y : f32[1,8,6,6] = add(%c, %b)
        output %y
        """
    )
    assert "%a : f32[1,8,6,6] = dequantize(%q, %s)" in ran.text
    assert "%b : f32[1,8,6,6] = dequantize(%q.again, %s)" in ran.text


@pytest.mark.parametrize(
    "body",
    [
        "group y on vector\n  %a : f16[4,4] = exp(%x)\n  %y : f16[4,4] = mul(%a, %x)",
        "group y on vector\n  %y : f16[4,4] = add(%x, %x)",
        'group y on host because "no reason"\n  %y : f16[4,4] = matmul(%x, %x)',
    ],
)
def test_what_reads_a_value_in_one_way_stays(body: str) -> None:
    text = f"input %x : f16[4,4]\n{body}\noutput %y"
    assert separate(text).text == tidy(text)
