"""Concatenations: written in place where their operands can be, copied where they can't."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

from stages.recipe.kinds import Kind
from stages.recipe.text import parse_recipe, print_recipe
from stages.recipe.verify import verify
from tests.compiler.judged import case_of, compile_and_judge
from tests.compiler.specs import hardware
from tests.recipe.onnx_models import parse

RANDOM = np.random.default_rng(5)


def engines(text: str, shape: tuple[int, ...], name: str = "npu_tiny") -> list[str]:
    """The engines of a model's concatenations, once its plan and its numbers were judged."""
    feeds = {"x": RANDOM.standard_normal(shape).astype(np.float16)}
    made = compile_and_judge(case_of(parse(text), feeds), hardware(name))
    kinds = {op.name: op.kind for op in made.recipe.graph.operators}
    again = parse_recipe(print_recipe(made.recipe))
    verify(again)
    assert again == made.recipe
    return [
        str(group.engine)
        for group in made.recipe.groups
        if kinds[group.operators[0]] is Kind.CONCAT
    ]


@pytest.mark.parametrize("name", ["npu_tiny", "rk3588_npu", "nvidia_t4"])
def test_operands_are_written_where_the_result_has_them(name: str) -> None:
    text = """g (float16[8, 64] x) => (float16[24, 64] y) {
        a = Relu(x) b = Exp(x) c = Softmax(x) j = Concat <axis = 0> (a, b, c) y = Neg(j) }"""
    assert engines(text, (8, 64), name) == ["none"]


def test_an_operand_may_have_other_readers() -> None:
    text = """g (float16[8, 64] x) => (float16[16, 64] y, float16[8, 64] z) {
        a = Relu(x) b = Exp(x) y = Concat <axis = 0> (a, b) z = Softmax(a) }"""
    assert engines(text, (8, 64)) == ["none"]


def test_runs_that_are_too_short_are_copied() -> None:
    text = """g (float16[64, 4] x) => (float16[64, 8] y) {
        a = Relu(x) b = Exp(x) y = Concat <axis = 1> (a, b) }"""
    assert engines(text, (64, 4)) == ["dma"]


@pytest.mark.parametrize(
    "text",
    [
        "(float16[16, 64] y) { a = Relu(x) y = Concat <axis = 0> (a, x) }",
        "(float16[16, 64] y) { a = Relu(x) y = Concat <axis = 0> (a, a) }",
        "(float16[16, 64] y, float16[8, 64] a)"
        " { a = Relu(x) b = Exp(x) y = Concat <axis = 0> (a, b) }",
    ],
    ids=["an input", "one twice", "an output"],
)
def test_what_lies_elsewhere_too_is_copied(text: str) -> None:
    assert engines(f"g (float16[8, 64] x) => {text}", (8, 64)) == ["dma"]


def test_one_value_lies_in_one_concatenation() -> None:
    text = """g (float16[8, 64] x) => (float16[16, 64] y, float16[16, 64] z) {
        a = Relu(x) b = Exp(x) c = Neg(x)
        y = Concat <axis = 0> (a, b) z = Concat <axis = 0> (a, c) }"""
    assert sorted(engines(text, (8, 64))) == ["dma", "none"]


def test_channels_are_joined_in_whole_blocks() -> None:
    model = parse(
        """g (float16[1, 16, 12, 12] x) => (float16[1, 40, 12, 12] y) {
             a = Conv <pads = [1, 1, 1, 1]> (x, w) b = Conv(x, v)
             j = Concat <axis = 1> (a, b) y = Relu(j) }"""
    )
    for value, shape in (("w", (16, 16, 3, 3)), ("v", (24, 16, 1, 1))):
        data = RANDOM.standard_normal(shape).astype(np.float16) / 8
        model.graph.initializer.append(numpy_helper.from_array(data, value))
    feeds = {"x": RANDOM.standard_normal((1, 16, 12, 12)).astype(np.float16)}
    made = compile_and_judge(case_of(model, feeds), hardware("npu_tiny"))
    kinds = {op.name: op.kind for op in made.recipe.graph.operators}
    found = [g for g in made.recipe.groups if kinds[g.operators[0]] is Kind.CONCAT]
    assert [str(group.engine) for group in found] == ["none"]
