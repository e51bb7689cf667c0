"""Concatenations: written in place where their operands can be, copied where they can't."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from models.textual import convolution_weight, model_from_text
from stages.recipe.kinds import Kind
from stages.recipe.text import parse_recipe, print_recipe
from stages.recipe.verify import verify
from tests.compiler.judged import case_of, compile_and_judge
from tests.compiler.specs import hardware
from tests.recipe.onnx_models import parse


def engines(
    model: str | onnx.ModelProto, shape: tuple[int, ...], name: str = "npu_tiny"
) -> list[str]:
    """The engines of a model's concatenations, once its plan and its numbers were judged."""
    feeds = {"x": np.random.default_rng(5).standard_normal(shape).astype(np.float16)}
    case = case_of(parse(model) if isinstance(model, str) else model, feeds)
    made = compile_and_judge(case, hardware(name))
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
    random = np.random.default_rng(6)
    w, v = convolution_weight(random, 16, 16, 3), convolution_weight(random, 24, 16, 1)
    model = model_from_text(
        """g (float16[1, 16, 12, 12] x) => (float16[1, 40, 12, 12] y) {
             a = Conv <pads = [1, 1, 1, 1]> (x, w) b = Conv(x, v)
             j = Concat <axis = 1> (a, b) y = Relu(j) }""",
        {"w": w.astype(np.float16), "v": v.astype(np.float16)},
    )
    assert engines(model, (1, 16, 12, 12)) == ["none"]
