"""The text form: what it looks like, that it reads back, and how it refuses."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.errors import InputError
from stages.recipe.decisions import (
    Allocation,
    Cascade,
    Engine,
    Group,
    Lifetime,
    Recipe,
    Target,
    Tile,
)
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind
from stages.recipe.text import parse_recipe, print_recipe
from stages.tensors import DType, Layout, LayoutKind, TensorType

GOLDEN = """\
recipe cls for rk3588_npu 1.0
note "made by hand"
cascade axis 2 stripe 6 of conv1, "pool 1"
input %x : f16[1,3,48,192]
const %conv1.w : f16[16,3,3,3]
const %"boxes/scores:0" : f16[1,1000,4] at ddr+0x2000 size 8000 weights live [0,2)
group conv1 on tensor_core tile [1,16,12,96] reduce 27 order [1,2,3] slots 2
  %t3 : f16[1,16,24,96] nc1hwc2/8                                            = \
conv(%x, %conv1.w) {dilations=[1,1], group=1, pads=[1,1,1,1], strides=[2,2]}  # "Conv 1"
  %t4 : f16[1,16,24,96] nc1hwc2/8 at sram+0x0400 size 36864 scoped live [0,2) = hard_swish(%t3)
group nms on host because "NonMaxSuppression isn't in the operator list of rk3588_npu"
  %y : i64[3,3], %z : i64[1] = host_call(%"boxes/scores:0", _, %t4) \
{names=["boxes/scores:0","",t4], node=b64"AAEC", opsets=["ai.onnx:17"], results=[y,z]}  # nms
output %y
output %z
"""


def test_golden_text_reads_back_to_itself() -> None:
    recipe = parse_recipe(GOLDEN)
    assert parse_recipe(print_recipe(recipe)) == recipe
    lines = [" ".join(line.split()) for line in GOLDEN.splitlines()]
    assert [" ".join(line.split()) for line in print_recipe(recipe).splitlines()] == lines
    call = recipe.graph.operators[-1]
    assert call.attributes["node"] == b"\0\1\2"
    assert call.inputs == ("boxes/scores:0", "", "t4")
    assert recipe.graph.operators[0].name == "Conv 1"
    assert recipe.groups[0].tile == Tile((1, 16, 12, 96), 27, (1, 2, 3), 2)
    assert recipe.cascades == (Cascade(("conv1", "pool 1"), 2, 6),)
    assert recipe.allocations["t4"] == Allocation("sram", 1024, 36864, Lifetime.SCOPED, 0, 2)


names = st.one_of(
    st.sampled_from(["x", "a b", "a/b:0", 'q"uo\\te', "naïve", "new\nline", "_", "", "inf", "1e5"]),
    st.sampled_from(["\u2028", "%x", "# y", "\r", "\x85", "]", "\udc80", "on", "0x1"]),
    st.text(max_size=6),
)
numbers = st.one_of(
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False),
    st.sampled_from([-0.0, math.inf, -math.inf, math.nan]),
)
attributes = st.one_of(
    numbers,
    names,
    st.binary(max_size=8),
    st.lists(st.integers(), max_size=3).map(tuple),
    st.lists(st.floats(allow_nan=False), max_size=3).map(tuple),
    st.lists(names, max_size=3).map(tuple),
)
shapes = st.lists(st.integers(0, 70000), max_size=4).map(tuple)
types = st.builds(TensorType, st.sampled_from(list(DType)), shapes)
operators = st.builds(
    Operator,
    names,
    st.sampled_from(list(Kind)),
    st.lists(names, max_size=3).map(tuple),
    st.lists(names, max_size=2).map(tuple),
    st.dictionaries(names, attributes, max_size=3),
)
layouts = st.builds(Layout, st.sampled_from(list(LayoutKind)), st.integers(1, 32))
allocations = st.builds(
    Allocation,
    names,
    st.integers(-5, 10**9),
    st.integers(0, 10**9),
    st.sampled_from(list(Lifetime)),
    st.integers(0, 99),
    st.integers(0, 99),
)
integers = st.lists(st.integers(0, 999), max_size=3).map(tuple)
cascades = st.builds(
    Cascade, st.lists(names, max_size=3).map(tuple), st.integers(0, 9), st.integers(0, 999)
)
tiles = st.builds(Tile, integers, st.integers(0, 9), integers, st.integers(1, 4))


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    """Any recipe, legal or not; groups often cut the operators into runs, as legal ones do."""
    every = tuple(draw(st.lists(operators, max_size=5)))
    labels = [operator.name for operator in every]
    cuts = sorted(draw(st.lists(st.integers(0, len(every)), max_size=3)))
    if draw(st.booleans()):
        members = [tuple(labels[a:b]) for a, b in pairwise(cuts)]
    else:
        members = draw(st.lists(st.lists(names, max_size=2).map(tuple), max_size=3))
    groups = tuple(
        Group(
            draw(names),
            each,
            draw(st.sampled_from(list(Engine))),
            draw(names),
            draw(st.none() | tiles),
        )
        for each in members
    )
    known = [*(name for operator in every for name in operator.outputs), "x"]
    some = st.sampled_from(known)
    graph = Graph(
        draw(names),
        tuple(draw(st.lists(names, max_size=2))),
        tuple(draw(st.lists(names, max_size=2))),
        tuple(draw(st.lists(names, max_size=2))),
        draw(st.dictionaries(some | names, types, max_size=5)),
        every,
    )
    return Recipe(
        graph,
        Target(draw(names), draw(names)),
        groups,
        draw(st.dictionaries(some, layouts, max_size=2)),
        draw(st.dictionaries(some, allocations, max_size=2)),
        tuple(draw(st.lists(names, max_size=2))),
        tuple(draw(st.lists(cascades, max_size=2))),
    )


def without_nan(recipe: Recipe) -> Recipe:
    """The recipe with NaN (unequal to itself) replaced by words."""
    clean = []
    for operator in recipe.graph.operators:
        pairs = {
            key: "NaN" if isinstance(value, float) and math.isnan(value) else value
            for key, value in operator.attributes.items()
        }
        clean.append(
            Operator(operator.name, operator.kind, operator.inputs, operator.outputs, pairs)
        )
    graph = recipe.graph
    plain = Graph(
        graph.name, graph.inputs, graph.outputs, graph.constants, graph.types, tuple(clean)
    )
    return replace(recipe, graph=plain)


def attribute_types(recipe: Recipe) -> list[object]:
    """What equality doesn't see: 1 is not 1.0, and 0.0 is not -0.0."""
    return [
        [(key, repr(value)) for key, value in sorted(operator.attributes.items())]
        for operator in recipe.graph.operators
    ]


@settings(max_examples=120, deadline=None)
@given(recipes())
def test_every_recipe_reads_back_equal(recipe: Recipe) -> None:
    text = print_recipe(recipe)
    again = parse_recipe(text)
    assert without_nan(again) == without_nan(recipe)
    assert attribute_types(again) == attribute_types(recipe)
    assert print_recipe(again) == text
    assert text.isascii() or text.encode()


HEAD = "recipe g for npu 1.0\n"


@pytest.mark.parametrize(
    ("text", "problem", "place"),
    [
        ("", "the text holds no recipe", "line 1, column 1"),
        ("reciep g for npu 1.0", "`recipe` is missing here", "line 1, column 1"),
        (HEAD + "input x : f32[1]", "a value is missing here", "line 2, column 7"),
        (HEAD + "input %x f32[1]", "`:` is missing here", "line 2, column 10"),
        (HEAD + "input %x : f33[1]", "`f33` isn't an element type", "line 2, column 12"),
        (HEAD + "input %x : f32[1;2]", "`,` is missing here", "line 2, column 17"),
        (HEAD + "%y : f32[1] = rleu(%x)", "`rleu` isn't an operator kind", "line 2, column 15"),
        (HEAD + "%y : f32[1] = relu(%x", "`,` is missing here", "line 2, column 22"),
        (HEAD + "%y : f32[1] = relu(%x) {a=}", "the value of an attribute is", "line 2, column 27"),
        (HEAD + "%y : f32[1] = relu(%x) {a=1, a=2}", "attribute a is given twice", "line 2"),
        (HEAD + '%y : f32[1] = relu(%x) {a=b64"*"}', "this isn't base64", "line 2, column 27"),
        (HEAD + '%"\\q" : f32[1] = relu(%x)', "unknown escape", "line 2, column 2"),
        (HEAD + "() = relu(%x)", "without results needs a name", "line 2, column 14"),
        (HEAD + "  %y : f32[1] = relu(%x)", "belongs to the group above", "line 2, column 3"),
        (HEAD + "group a on gpu", "`gpu` isn't an engine", "line 2, column 12"),
        (HEAD + "group a on host tile [1]", "`reduce` is missing here", "line 2, column 25"),
        (HEAD + "input %x : f32[1] at sram+12", "an offset is missing here", "line 2, column 27"),
        (HEAD + "input %x : f32[1]\nvalue %x : f32[2]", "was f32[1] before", "line 3, column 7"),
        (HEAD + "output %x %y", "the line should end here", "line 2, column 11"),
        (HEAD + "note hello", "a note is missing here", "line 2, column 6"),
        (HEAD + "cascade 2", "`axis` is missing here", "line 2, column 9"),
        (HEAD + "cascade axis 2 stripe 4 a, b", "`of` is missing here", "line 2, column 25"),
        (HEAD + "wat", "says nothing that a recipe holds", "line 2, column 1"),
    ],
)
def test_a_wrong_text_is_refused_at_its_place(text: str, problem: str, place: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_recipe(text)
    error = caught.value
    assert problem in error.problem
    assert error.where.startswith(place)
    assert error.hint
    if text:
        assert text.split("\n")[-1] in error.where


def test_comments_and_blank_lines_and_dos_line_ends_are_skipped() -> None:
    text = print_recipe(parse_recipe(GOLDEN))
    noisy = "# by me\r\n\r\n" + text.replace("\n", "\r\n").replace("output %y", "  # so\noutput %y")
    assert print_recipe(parse_recipe(noisy)) == text
