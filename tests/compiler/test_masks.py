"""SimplifyMasks, ShareEqual and LowerLogic: masks become small, shared, and the device's own."""

from __future__ import annotations

import numpy as np
import pytest

from stages.compiler.passes.lower_logic import LowerLogic
from stages.compiler.passes.masks import ShareEqual, SimplifyMasks
from stages.compiler.passes.recognize import Recognize
from stages.recipe.semantics import interpret
from tests.compiler.passing import run_pass, tidy
from tests.compiler.specs import hardware

GUARD = """
    input %x : f32[2,4]
    const %0 : f32[]
    %s : f32[2,4] = softmax(%x) {axis=1}
    %n : bool[2,4] = is_nan(%s)
    %y : f32[2,4] = where(%n, %0, %s)
    output %y
    """


def test_a_gather_at_every_place_is_a_reshape() -> None:
    text = """
        input %x : f32[6,2]
        const %i : i64[1,6]
        %y : f32[1,6,2] = gather(%x, %i) {axis=0}
        output %y
        """
    ran = run_pass(SimplifyMasks(), text, {"i": np.arange(6)[None]})
    assert ran.graph_text == tidy(
        "input %x : f32[6,2]\n%y : f32[1,6,2] = reshape(%x) {shape=[1,6,2]}\noutput %y"
    )


@pytest.mark.parametrize(("places", "wanted"), [([1, 3, 5], ["slice", "reshape"]),
                                                ([-2], ["slice", "reshape"]),
                                                ([3, 1], ["gather"]),
                                                ([0, 1, 3], ["gather"])])  # fmt: skip
def test_a_gather_in_steps_is_a_slice(places: list[int], wanted: list[str]) -> None:
    text = f"""
        input %x : f32[2,6]
        const %i : i64[{len(places)}]
        %y : f32[2,{len(places)}] = gather(%x, %i) {{axis=1}}
        output %y
        """
    assert run_pass(SimplifyMasks(), text, {"i": np.array(places)}).kinds == wanted


def test_a_padding_mask_is_computed_as_a_row() -> None:
    text = """
        input %m : f32[1,1,1,4]
        input %s : f32[1,2,4,4]
        const %0 : f32[]
        const %low : f32[]
        const %true : bool[1,1,4,1]
        %k : bool[1,1,1,4] = greater(%m, %0)
        %a : bool[1,1,4,4] = and(%true, %k)
        %w : f32[1,1,4,4] = where(%a, %0, %low)
        %y : f32[1,2,4,4] = add(%s, %w)
        output %y
        """
    ran = run_pass(SimplifyMasks(), text, {"0": 0.0, "low": -9.0, "true": 1})
    assert ran.graph_text == tidy(
        """
        input %m : f32[1,1,1,4]
        input %s : f32[1,2,4,4]
        const %0 : f32[]
        const %low : f32[]
        %k : bool[1,1,1,4] = greater(%m, %0)
        %w.small : f32[1,1,1,4] = where(%k, %0, %low) # w
        %y : f32[1,2,4,4] = add(%s, %w.small)
        output %y
        """
    )


@pytest.mark.parametrize(
    ("kind", "truth", "wanted"),
    [("and", 1, []), ("or", 0, []), ("and", 0, ["and"]), ("or", 1, ["or"])],
)
def test_logic_with_constants(kind: str, truth: int, wanted: list[str]) -> None:
    text = f"""
        input %x : bool[2,3]
        const %c : bool[2,3]
        %y : bool[2,3] = {kind}(%x, %c)
        %z : bool[2,3] = not(%y)
        output %z
        """
    ran = run_pass(SimplifyMasks(), text, {"c": truth})
    assert [kind for kind in ran.kinds if kind not in ("not", "identity")] == wanted


def test_a_choice_by_a_constant_is_no_choice() -> None:
    text = """
        input %x : f32[2,3]
        input %z : f32[2,1]
        const %c : bool[2,3]
        %y : f32[2,3] = where(%c, %x, %z)
        output %y
        """
    assert run_pass(SimplifyMasks(), text, {"c": 1}).kinds == ["identity"]
    assert run_pass(SimplifyMasks(), text, {"c": 0}).kinds == ["expand"]
    assert run_pass(SimplifyMasks(), text, {"c": np.eye(2, 3)}).kinds == ["where"]


def test_equal_chains_become_one() -> None:
    text = """
        input %x : f32[2,3]
        const %a : f32[]
        const %b : f32[]
        const %c : f32[]
        %p : f32[2,3] = add(%x, %a)
        %q : f32[2,3] = add(%x, %b)
        %r : f32[2,3] = add(%x, %c)
        %u : f32[2,3] = exp(%p)
        %v : f32[2,3] = exp(%q)
        %w : f32[2,3] = mul(%u, %v)
        %y : f32[2,3] = sub(%w, %r)
        output %y
        """
    ran = run_pass(ShareEqual(), text, {"a": 1.0, "b": 1.0, "c": 2.0})
    assert ran.kinds == ["add", "exp", "mul", "add", "sub"]


def test_what_differs_in_an_attribute_or_is_an_output_is_not_shared() -> None:
    text = """
        input %x : f32[2,3]
        %a : f32[2,3] = softmax(%x) {axis=0}
        %b : f32[2,3] = softmax(%x) {axis=1}
        %c : f32[2,3] = softmax(%x) {axis=1}
        %y : f32[2,3] = sub(%a, %b)
        output %c
        output %y
        """
    assert run_pass(ShareEqual(), text).kinds == ["softmax", "softmax", "softmax", "sub"]


def test_the_guard_of_a_softmax_is_the_softmax_s_own() -> None:
    ran = run_pass(Recognize(), GUARD, {"0": 0.0})
    assert ran.graph_text == tidy(
        """
        input %x : f32[2,4]
        %y : f32[2,4] = softmax(%x) {axis=1, undefined=zero}
        output %y
        """
    )
    assert run_pass(Recognize(), GUARD, {"0": 1.0}).kinds == ["softmax", "is_nan", "where"]


CASTS = {
    "bool": ("input %a : bool[2,3]", "%y : f32[2,3] = cast(%a)"),
    "number": ("input %a : f32[2,3]", "%y : bool[2,3] = cast(%a)"),
    "is_nan": ("input %a : f32[2,3]", "%y : bool[2,3] = is_nan(%a)"),
    "not": ("input %a : bool[2,3]", "%y : bool[2,3] = not(%a)"),
    **{
        kind: (
            "input %a : bool[2,3]\ninput %b : bool[1,3]",
            f"%y : bool[2,3] = {kind}(%a, %b)",
        )
        for kind in ("and", "or", "xor")
    },
}


EVERY = {
    ("a", "bool"): np.array([[True, True, False], [False, True, False]]),
    ("b", "bool"): np.array([[True, False, False]]),
    ("a", "f32"): np.array([[0.0, np.nan, 1.5], [-2.0, -0.0, np.inf]], np.float32),
}
"""Both truth values beside both, and the numbers that a test of one may take for another."""


@pytest.mark.parametrize("name", sorted(CASTS))
def test_logic_by_choice(name: str) -> None:
    given, operator = CASTS[name]
    text = f"{given}\n{operator}\noutput %y"
    ran = run_pass(LowerLogic(), text, spec=hardware("rk3588_npu"))
    assert set(ran.kinds) <= {"where", "equal"}
    graph, after = ran.before.graph, ran.after
    feeds = {name: EVERY[name, str(graph.types[name].dtype)] for name in graph.inputs}
    wanted = interpret(graph, ran.before.constants, feeds)["y"]
    np.testing.assert_array_equal(interpret(after.graph, after.constants, feeds)["y"], wanted)
    unchanged = run_pass(LowerLogic(), text, spec=hardware("nvidia_t4"))
    assert not {"where", "equal"} & set(unchanged.kinds)


def test_logic_stays_where_a_device_can_not_choose() -> None:
    text = "input %a : bool[2,3]\n%y : bool[2,3] = not(%a)\noutput %y"
    assert run_pass(LowerLogic(), text, spec=hardware("ethos_u65_512")).kinds == ["not"]
