"""One legal recipe, and one illegal variant of it for each rule of `verify`."""

from dataclasses import replace

import numpy as np
import pytest

from stages.recipe.decisions import Recipe
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.text import parse_recipe
from stages.recipe.verify import IllegalRecipeError, verify, verify_draft, verify_graph
from stages.tensors import DType, TensorType

LEGAL = """\
recipe net for npu 1.0
input %x : f16[1,4,8,8]
const %w : f16[8,4,3,3]
const %b : f32[8]
group conv on tensor_core tile [1,8,4,8] reduce 36 order [2] slots 2
  %c : f16[1,8,8,8] nc1hwc2/8 = conv(%x, %w, %b) {dilations=[1,1], group=1, pads=[1,1,1,1], \
strides=[1,1]}
  %r : f16[1,8,8,8] nc1hwc2/8 at sram+0x0400 size 1024 scoped live [0,3) = relu(%c)  # act
group view on none
  %v : f16[1,8,64] at sram+0x0400 size 1024 scoped live [0,3) = reshape(%r) {shape=[1,8,64]}
group split on host because "it has two results"
  %s : f16[1,3,64], %t : f16[1,5,64] at ddr+0x0000 size 640 long_lived live [2,3) = split(%v) \
{axis=1, sizes=[3,5]}
output %s
output %t
"""


def variant(*changes: tuple[str, str]) -> Recipe:
    text = LEGAL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_recipe(text)


def test_the_legal_recipe_is_legal() -> None:
    recipe = variant()
    data = {"w": np.zeros((8, 4, 3, 3), np.float16), "b": np.zeros(8, np.float32)}
    verify(recipe, data)
    verify_graph(recipe.graph, data)


RELU = "= relu(%c)"
T_ALONE = ", %t : f16[1,5,64] at ddr+0x0000 size 640 long_lived live [2,3)"
SPLIT = "= split(%v) {axis=1, sizes=[3,5]}"

CASES: list[tuple[list[tuple[str, str]], str, str]] = [
    # values
    ([(RELU, "= relu(%d)")], "operand %d isn't defined before it is read", "relu(%d)"),
    ([("= conv(%x", "= conv(%r")], "operand %r isn't defined before", "conv(%r"),
    ([("input %x", "input %x : f16[1,4,8,8]\ninput %x")], "%x is defined twice", "%x"),
    ([("group view", "  %c : f16[1,8,8,8] = abs(%r)  # d\ngroup view")], "%c is defined", "%c"),
    ([("%r : f16[1,8,8,8] ", "%r : ? ")], "%r has no type", "%r"),
    ([("output %s", "output %q")], "output %q isn't defined", "%q"),
    ([("output %s", "value %q : f16[1]\noutput %s")], "%q has a type, but nothing", "%q"),
    ([("output %s", "value %q : ? nhwc\noutput %s")], "%q has a layout, but nothing", "%q"),
    ([("# act", "# c")], 'two operators are named "c"', "relu"),
    # operators
    ([(RELU, "= relu(%c, %c)")], "relu takes 1 operand, this one has 2", "relu"),
    ([(RELU, "= relu(_)")], "relu needs its operand number 1", "relu"),
    ([(RELU, "= leaky_relu(%c)")], "leaky_relu needs the attribute alpha, a number", "leaky"),
    ([(RELU, "= relu(%c) {alpha=1}")], "relu has no attribute alpha", "alpha=1"),
    ([("group=1", "group=1.0")], "attribute group of conv is 1.0", "group=1.0"),
    ([(RELU, "= gelu(%c) {approximate=erf}")], "attribute approximate of gelu is 'erf'", "="),
    ([("pads=[1,1,1,1]", "pads=[1,1]")], "pads has 2 entries", "pads=[1,1]"),
    ([("strides=[1,1]", "strides=[0,1]")], "strides [0, 1] of conv hold a number below 1", "="),
    ([("group=1", "group=0")], "group is 0", "group=0"),
    ([("group=1", "group=2")], "weights f16[8,4,3,3] in 2 groups read 8 channels", "conv"),
    ([("%c : f16[1,8,8,8]", "%c : f16[1,8,8,7]")], "%c is declared as f16[1,8,8,7]", "f16"),
    ([("const %b : f32[8]", "const %b : f32[4]")], "the bias of conv is f32[4]", "conv"),
    ([("%c : f16[1,8,8,8] ", "%c : i8[1,8,8,8] ")], "%c is declared as i8[1,8,8,8]", "i8"),
    ([(RELU, "= add(%c, %w)")], "operands of add don't broadcast", "add"),
    ([(RELU, "= not(%c)")], "not reads f16[1,8,8,8] where a bool is needed", "not"),
    ([("shape=[1,8,64]", "shape=[1,8,-1]")], "shape [1, 8, -1] doesn't hold", "shape"),
    ([("axis=1", "axis=-2")], "axis -2 isn't an axis", "axis=-2"),
    ([("sizes=[3,5]", "sizes=[3,4]")], "sizes [3, 4] don't add up", "sizes"),
    (
        [
            (", %t : f16[1,5,64] at ddr+0x0000 size 640 long_lived live [2,3)", ""),
            ("output %t", ""),
        ],
        "split makes 2 results, 1 are named",
        "split",
    ),
    ([(RELU, "= softmax(%c) {axis=4}")], "axis 4 isn't an axis", "axis=4"),
    # groups
    ([("group view", "group conv")], 'two groups are named "conv"', "group conv"),
    ([("output %s", "group no on host\noutput %s")], 'group "no" is empty', "group no"),
    ([("group view on none\n  %v", "%v")], 'operator "v" is in no group', "reshape"),
    (
        [("group view", "group again on none of act\ngroup view")],
        'lists "act", which is no',
        "again",
    ),
    ([("group view", "group new on none of nothing\ngroup view")], 'lists "nothing", which', "new"),
    ([("group conv on tensor_core", "group conv on none")], 'group "conv" on none holds', "none"),
    ([("group split on host because", "# "), ("  %s :", "%s :")], 'operator "s" is in no', "%s"),
    ([("group split on host", "group split on vector")], "has 2 results that others read", "vec"),
    (
        [("on none", "on dma"), ("(%v)", "(%r)"), (",64], %t", ",8,8], %t"), ("5,64]", "5,8,8]")],
        "has 0 results that",
        "dma",
    ),
    # layouts
    ([("%s : f16[1,3,64]", "%s : f16[1,3,64] nhwc/0")], "the quantum 0", "nhwc"),
    ([("const %b : f32[8]", "const %b : f32[8] nhwc")], "%b of rank 1 can't be nhwc", "nhwc"),
    # tiles
    ([("tile [1,8,4,8]", "tile [1,8,9,8]")], "the tile [1, 8, 9, 8] doesn't lie in %r", "tile"),
    ([("tile [1,8,4,8]", "tile [1,8,4]")], "the tile [1, 8, 4] doesn't lie in %r", "tile"),
    ([("tile [1,8,4,8]", "tile [1,8,0,8]")], "the tile [1, 8, 0, 8] doesn't lie", "tile"),
    ([("order [2]", "order [2,2]")], "the order [2, 2] isn't made of distinct axes", "order"),
    ([("order [2]", "order [4]")], "the order [4] isn't made of distinct axes", "order"),
    ([("slots 2", "slots 0")], "a tile with 0 slots", "slots"),
    ([("reduce 36", "reduce -1")], "that contracts -1 elements", "reduce"),
    # allocations
    ([("ddr+0x0000", "ddr-0x0001")], "%t lies at -1, 640 bytes", "at"),
    ([("live [2,3)", "live [3,3)")], "live [3,3)", "at"),
    (
        [
            (
                "nc1hwc2/8 at sram+0x0400 size 1024 scoped live [0,3)",
                "at sram+0x0400 size 9 scoped live [0,1)",
            )
        ],
        "%r is live in groups [0,2), its allocation in [0,1)",
        "live [0,1)",
    ),
    ([("ddr+0x0000", "sram+0x07ff")], "share bytes of sram in groups [2,3)", "%t"),
]


@pytest.mark.parametrize(("changes", "problem", "spot"), CASES)
def test_an_illegal_recipe_is_refused_at_its_line(
    changes: list[tuple[str, str]], problem: str, spot: str
) -> None:
    with pytest.raises(IllegalRecipeError) as caught:
        verify(variant(*changes))
    error = caught.value
    assert problem in error.problem
    line, marks = error.where.split("\n")
    assert spot in line
    assert marks.strip().startswith("^")
    assert marks.endswith(error.problem)
    assert error.hint


def test_a_draft_may_hold_its_groups_in_any_order() -> None:
    recipe = variant()
    swapped = replace(
        recipe, groups=(recipe.groups[1], recipe.groups[0], recipe.groups[2]), allocations={}
    )
    verify_draft(swapped)
    with pytest.raises(IllegalRecipeError, match='group "view" lists "v" where the graph has "c"'):
        verify(swapped)


def test_a_result_without_a_name_is_refused() -> None:
    recipe = variant()
    last = recipe.graph.operators[-1]
    nameless = replace(last, outputs=("s", ""))
    none = replace(last, outputs=())
    for broken, problem in ((nameless, "has no name"), (none, "has 0 results")):
        graph = replace(recipe.graph, operators=(*recipe.graph.operators[:-1], broken))
        graph = replace(graph, outputs=())
        types = {name: graph.types[name] for name in graph.types if name not in ("s", "t")}
        types |= {"s": graph.types["s"]} if broken is nameless else {}
        graph = replace(graph, types=types)
        with pytest.raises(IllegalRecipeError, match=problem):
            verify(replace(recipe, graph=graph, allocations={}))


def test_constants_must_have_data_of_their_type() -> None:
    recipe = variant()
    data = {"w": np.zeros((8, 4, 3, 3), np.float16)}
    with pytest.raises(IllegalRecipeError, match="the data of %b is missing"):
        verify(recipe, data)
    with pytest.raises(IllegalRecipeError, match=r"the data of %b is float16\[8\]"):
        verify(recipe, data | {"b": np.zeros(8, np.float16)})


def test_the_error_points_at_the_operand_and_not_at_a_longer_name() -> None:
    recipe = variant(("= relu(%c)", "= add(%c, %c2)"), ("%c :", "%c22 :"), ("(%c,", "(%c22,"))
    with pytest.raises(IllegalRecipeError) as caught:
        verify(recipe)
    line, marks = caught.value.where.split("\n")
    assert line[marks.index("^") - 4 :].startswith("%c2)")


def test_a_host_call_keeps_its_declared_types() -> None:
    recipe = variant()
    call = Operator(
        "call",
        Kind.HOST_CALL,
        ("v", ""),
        ("h",),
        {"node": b"", "names": ("v", ""), "results": ("h",), "opsets": ("ai.onnx:17",)},
    )
    graph = replace(
        recipe.graph,
        operators=(*recipe.graph.operators, call),
        types={**recipe.graph.types, "h": TensorType(DType.I64, (7,))},
    )
    verify_graph(graph)
