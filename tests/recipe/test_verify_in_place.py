"""Two values in the same bytes: legal where the later one takes the earlier one's place."""

from __future__ import annotations

import pytest

from stages.recipe.refusal import IllegalRecipeError
from stages.recipe.text import parse_recipe
from stages.recipe.verify import verify

LEGAL = """\
recipe small for npu_tiny 1.0
input %x : f16[4,8]
const %c : f16[8]
group one on vector
  %a : f16[4,8] at sram+0x0400 size 64 scoped live [0,2) = exp(%x)
group two on vector
  %b : f16[4,8] at sram+0x0400 size 64 scoped live [1,3) = add(%a, %c)
group three on vector
  %y : f16[4,8] = neg(%b)
output %y
"""
SOFT = ("add(%a, %c)", "softmax(%a) {axis=1}"), ("const %c : f16[8]\n", "")


def text(*changes: tuple[str, str]) -> str:
    found = LEGAL
    for old, new in changes:
        assert old in found, old
        found = found.replace(old, new)
    return found


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [("0x0400 size 64 scoped live [1,3)", "0x0440 size 64 scoped live [1,3)")],
        [("add(%a, %c)", "sub(%c, %a)")],
        [*SOFT, ("0x0400 size 64 scoped live [1,3)", "0x0440 size 64 scoped live [1,3)")],
    ],
)
def test_a_result_may_take_the_place_of_an_operand_that_dies(
    changes: list[tuple[str, str]],
) -> None:
    verify(parse_recipe(text(*changes)))


@pytest.mark.parametrize(
    "changes",
    [
        [("neg(%b)", "sub(%b, %a)"), ("live [0,2)", "live [0,3)")],  # read afterwards
        [("live [0,2)", "live [0,3)")],  # kept afterwards
        [*SOFT],
        [("0x0400 size 64 scoped live [1,3)", "0x0420 size 64 scoped live [1,3)")],
        [("size 64 scoped live [1,3)", "size 96 scoped live [1,3)")],
        [("group two on vector", "group two on tensor_core")],
        [("live [1,3)", "live [0,3)")],  # there before it is made
        [("%b : f16[4,8]", "%b : f32[4,8]")],
    ],
)
def test_what_is_no_exact_succession_is_refused(changes: list[tuple[str, str]]) -> None:
    with pytest.raises(IllegalRecipeError, match="share bytes of sram"):
        verify(parse_recipe(text(*changes)))
