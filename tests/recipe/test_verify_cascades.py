"""One legal cascade, and one illegal variant of it for each thing that can be wrong with it."""

import pytest

from stages.recipe.decisions import Recipe
from stages.recipe.text import parse_recipe
from stages.recipe.verify import IllegalRecipeError, verify

LEGAL = """\
recipe net for npu 1.0
cascade axis 2 stripe 4 of a, b
input %x : f16[1,4,8,8]
group a on vector tile [1,4,4,8] reduce 0 order [0,1,2,3] slots 2
  %p : f16[1,4,8,8] at sram+0x0000 size 256 ephemeral live [0,2) = relu(%x)
group b on vector tile [1,4,4,8] reduce 0 order [0,1,2,3] slots 2
  %q : f16[1,4,8,8] = neg(%p)
group c on vector tile [1,4,8,8] reduce 0 order [0,1,2,3] slots 2
  %r : f16[1,4,8,8] = abs(%q)
group h on host because "it is"
  %s : f16[1,4,8,8] = sign(%r)
output %s
"""


def variant(old: str, new: str) -> Recipe:
    assert old in LEGAL
    return parse_recipe(LEGAL.replace(old, new))


def test_the_legal_cascade_is_legal() -> None:
    verify(parse_recipe(LEGAL))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("of a, b", "of a", "a cascade of fewer than two groups"),
        ("of a, b", "of a, z", '"z" is no group of the recipe'),
        ("of a, b", "of a, c", '"c" doesn\'t follow "a" in the recipe'),
        ("of a, b", "of b, a", '"a" doesn\'t follow "b" in the recipe'),
        ("of a, b", "of c, h", 'group "h" on host has no stripes'),
        ("input", "cascade axis 2 stripe 2 of b, c\ninput", '"b" is in two cascades'),
        ("axis 2", "axis 4", "%q : f16[1,4,8,8] has no axis 4"),
        ("stripe 4", "stripe 9", "a stripe of 9 along axis 2 of %q : f16[1,4,8,8]"),
        ("stripe 4", "stripe 0", "a stripe of 0 along axis 2"),
        ("neg(%p)", "neg(%x)", "nothing passes between the groups of a cascade"),
    ],
)
def test_an_illegal_cascade_is_refused(old: str, new: str, problem: str) -> None:
    text = LEGAL.replace("sign(%r)", "add(%r, %p)") if "%x" in new else LEGAL
    assert old in text
    with pytest.raises(IllegalRecipeError) as caught:
        verify(parse_recipe(text.replace(old, new)))
    assert problem in str(caught.value)
    assert "cascade axis" in str(caught.value)
    assert caught.value.hint


JOINED = """\
recipe net for npu 1.0
cascade axis 2 stripe 4 of a, b, c
input %x : f16[1,4,8,8]
group a on vector tile [1,4,4,8] reduce 0 order [0,1,2,3] slots 2
  %p : f16[1,4,8,8] at sram+0x0000 size 512 ephemeral live [0,4) = relu(%x)
group b on vector tile [1,4,4,8] reduce 0 order [0,1,2,3] slots 2
  %q : f16[1,4,8,8] at sram+0x0000 size 512 ephemeral live [0,4) = neg(%x)
group j on none
  %j : f16[1,8,8,8] at sram+0x0000 size 512 ephemeral live [0,4) = concat(%p, %q) {axis=1}
group c on vector tile [1,8,4,8] reduce 0 order [0,1,2,3] slots 2
  %r : f16[1,8,8,8] = abs(%j)
output %r
"""


def test_a_view_may_stand_between_the_groups_of_a_cascade() -> None:
    verify(parse_recipe(JOINED))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("group j on none", "group j on dma", '"c" doesn\'t follow "b" in the recipe'),
        ("abs(%j)", "abs(%y)", "nothing passes between the groups of a cascade"),
    ],
)
def test_only_a_view_that_is_read_makes_a_cascade(old: str, new: str, problem: str) -> None:
    text = JOINED.replace("input %x", "input %y : f16[1,8,8,8]\ninput %x").replace(
        "output %r", "output %r\noutput %j"
    )
    with pytest.raises(IllegalRecipeError) as caught:
        verify(parse_recipe(text.replace(old, new)))
    assert problem in str(caught.value)
