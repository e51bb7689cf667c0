"""LatePieces: what makes a large piece of a concatenation out of little is made right before it."""

from __future__ import annotations

import pytest

from stages.compiler.passes.late_pieces import LatePieces
from stages.recipe.text import parse_recipe
from tests.compiler.passing import run_pass

SMALL, LARGE = "f16[1,4,4,4]", "f16[1,4,8,8]"
UPSAMPLED = (
    "resize(%s) {coordinates=asymmetric, mode=nearest, nearest=floor, scales=[1.0,1.0,2.0,2.0]}"
)

MORE = f"""group too on vector
          %z : {LARGE} = abs(%u)
        output %z"""


def order_of(source: str, made_by: str, engine: str = "none", more: str = "") -> list[str]:
    """The groups' order behind the pass: `up` makes a piece of `join`, between them is `other`."""
    text = f"""
        input %s : {source}
        input %x : {LARGE}
        group up on vector
          %u : {LARGE} = {made_by}
        group other on vector
          %o : {LARGE} = relu(%x)
        group join on {engine}
          %j : f16[1,8,8,8] = concat(%u, %o) {{axis=1}}
        group end on vector
          %y : f16[1,8,8,8] = neg(%j)
        {more}
        output %y
        """
    ran = run_pass(LatePieces(), text)
    parse_recipe(f"recipe net for npu 1.0\n{ran.text}")
    return [line.split()[1] for line in ran.text.splitlines() if line.startswith("group")]


def test_a_large_piece_of_little_comes_late() -> None:
    assert order_of(SMALL, UPSAMPLED) == ["other", "up", "join", "end"]


@pytest.mark.parametrize(
    ("source", "made_by", "engine", "more"),
    [
        (LARGE, "abs(%s)", "none", ""),
        (SMALL, UPSAMPLED, "dma", ""),
        (SMALL, UPSAMPLED, "none", MORE),
    ],
    ids=["as large as what it reads", "copied", "read elsewhere too"],
)
def test_other_groups_keep_their_place(source: str, made_by: str, engine: str, more: str) -> None:
    order = order_of(source, made_by, engine, more)
    assert order[:3] == ["up", "other", "join"]
