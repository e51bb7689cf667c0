"""What was weighed: bounded, found by name, and back from its file as it was."""

from __future__ import annotations

import pytest

from stages.errors import PackageError
from stages.package.explanation_file import print_explanation, read_explanation
from stages.recipe.explanation import (
    MAX_ALTERNATIVES,
    Alternative,
    Weighed,
    group_of,
    nearest_names,
    reasons_of,
)
from stages.recipe.text import parse_recipe
from tests.compiler.passing import draft_of

RECIPE = parse_recipe(
    """recipe m for npu_tiny 1.0
    input %x : f16[1,8]
    group one on vector
      %a : f16[1,8] = relu(%x)
      %b : f16[1,8] = tanh(%a)  # act
    group two on host because "no"
      %y : f16[1,8] = sigmoid(%b)
    output %y
    """
)


def weighed(subject: str, question: str = "tile", count: int = 2, chosen: str = "0") -> Weighed:
    ways = tuple(Alternative(str(number), number, "") for number in range(count))
    return Weighed(subject, question, ways, chosen, "because")


def test_an_operator_a_group_and_a_value_lead_to_the_group() -> None:
    items = (weighed("one"), weighed("two"), weighed("act", "precision"))
    for name in ("act", "one", "a", "%b"):
        group = group_of(RECIPE, name)
        assert group is not None
        assert group.name == "one"
    assert reasons_of(RECIPE, items, "act") == (items[2], items[0])
    assert reasons_of(RECIPE, items, "%y") == (items[1],)
    whole = weighed("", "layout")
    assert reasons_of(RECIPE, (whole, *items), "two") == (items[1], whole)
    assert group_of(RECIPE, "x") is None, "nothing makes an input"
    assert reasons_of(RECIPE, items, "nothing") == ()


def test_the_nearest_names() -> None:
    assert nearest_names(RECIPE, "akt")[0] == "act"
    assert nearest_names(RECIPE, "TWO") == ["two"]
    assert nearest_names(RECIPE, "zzz") == []


def test_alternatives_are_few_and_hold_the_chosen_one() -> None:
    many = weighed("one", count=30, chosen="20").bounded()
    assert len(many.alternatives) == MAX_ALTERNATIVES
    assert many.alternatives[-1].name == "20"
    assert weighed("one").bounded() == weighed("one")


def test_a_later_word_on_the_same_question_replaces_the_first() -> None:
    draft = draft_of("input %x : f16[4]\n%y : f16[4] = relu(%x)\noutput %y")
    first, other, later = weighed("y"), weighed("y", "layout"), weighed("y", chosen="1")
    draft = draft.with_weighed([first, other]).with_weighed([later])
    assert draft.weighed == (other, later)


def test_the_file_holds_it_all() -> None:
    items = (
        weighed("one"),
        Weighed("", "layout", (Alternative("nhwc", None, "“no price”"),), "nhwc", "2 < 3"),
    )
    text = print_explanation(items)
    assert read_explanation(text.encode(), "x") == items
    assert len(text.splitlines()) == len(items) + 2, "a line for each"
    assert read_explanation(print_explanation([]).encode(), "x") == ()
    for broken in ("{}", "[{}]", text.replace('"cost_cycles":0', '"cost_cycles":"0"'), "["):
        with pytest.raises(PackageError, match="explanation isn't in the form"):
            read_explanation(broken.encode(), "x")
