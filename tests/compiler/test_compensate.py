"""CompensateRounding: what f16 weights lose on average goes into the bias."""

from __future__ import annotations

import numpy as np
import pytest

from stages.compiler.passes.compensate import CompensateRounding
from stages.recipe.kinds import Kind
from stages.recipe.semantics import interpret
from tests.compiler.passing import draft_of, random_array, run_pass
from tests.compiler.specs import hardware

RANDOM = np.random.default_rng(3)
CONV = "dilations=[1,1], pads=[0,0,0,0], strides=[1,1]"
TEXTS = {
    "matmul": """
        input %x : f32[40,24]
        const %w : f32[24,8]
        %y : f32[40,8] = matmul(%x, %w)
        output %y
        """,
    "matmul with a bias": """
        input %x : f32[40,24]
        const %w : f32[24,8]
        const %b : f32[8]
        %y : f32[40,8] = matmul(%x, %w, %b)
        output %y
        """,
    "conv": f"""
        input %x : f32[2,6,9,9]
        const %w : f32[5,6,2,2]
        %y : f32[2,5,8,8] = conv(%x, %w) {{{CONV}, group=1}}
        output %y
        """,
    "conv at the edges": """
        input %x : f32[1,6,1]
        const %w : f32[5,6,3]
        %y : f32[1,5,1] = conv(%x, %w) {dilations=[1], group=1, pads=[1,1], strides=[1]}
        output %y
        """,
    "strided conv at the edges": """
        input %x : f32[1,6,5,5]
        const %w : f32[5,6,3,3]
        %y : f32[1,5,2,3] = conv(%x, %w) {dilations=[2,1], group=1, pads=[1,1,1,1], strides=[2,2]}
        output %y
        """,
    "grouped conv": f"""
        input %x : f32[2,6,9,9]
        const %w : f32[8,3,1,1]
        %y : f32[2,8,9,9] = conv(%x, %w) {{{CONV}, group=2}}
        output %y
        """,
}


def coarse(text: str):
    """A draft whose weights lose a lot in f16 (all by the same sign), and a sample with a mean."""
    draft = draft_of(text)
    shape = draft.graph.types["w"].shape
    weights = (1 + RANDOM.random(shape) * 0.1 + 2.0**-12).astype(np.float32)
    sample = random_array(draft.graph.types["x"], RANDOM) * np.float32(0.1) + np.float32(3)
    return draft_of(text, {"w": weights}), {"x": sample}


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_the_mean_error_of_each_channel_goes(name: str) -> None:
    draft, sample = coarse(TEXTS[name])
    after = CompensateRounding(sample).run(draft, hardware("npu_tiny"))
    exact = interpret(draft.graph, draft.constants, sample)["y"]

    def error(made) -> float:
        halves = {
            key: data.astype(np.float16).astype(np.float32) if key == "w" else data
            for key, data in made.constants.items()
        }
        off = interpret(made.graph, halves, sample)["y"] - exact
        axes = tuple(axis for axis in range(off.ndim) if axis != 1)
        return float(np.abs(off.mean(axis=axes)).max())

    assert error(after) < error(draft) / 20


def test_weights_that_lose_nothing_keep_their_meaning() -> None:
    draft = draft_of(TEXTS["matmul"], {"w": 0.5})
    sample = {"x": random_array(draft.graph.types["x"], RANDOM)}
    run_pass(CompensateRounding(sample), TEXTS["matmul"], {"w": 0.5}, tolerance=0)


def test_without_a_float_unit_nothing_changes() -> None:
    draft, sample = coarse(TEXTS["conv"])
    assert CompensateRounding(sample).run(draft, hardware("ethos_u65_512")) is draft


@pytest.mark.parametrize("bias", ["f32[6,1]", "f32[6,6]"])
def test_a_bias_that_is_not_one_number_a_column_stays(bias: str) -> None:
    text = f"""
        input %x : f32[6,24]
        const %w : f32[24,6]
        const %b : {bias}
        %y : f32[6,6] = matmul(%x, %w, %b)
        output %y
        """
    draft, sample = coarse(text)
    after = CompensateRounding(sample).run(draft, hardware("npu_tiny"))
    (product,) = (op for op in after.graph.operators if op.kind is Kind.MATMUL)
    assert product.inputs == ("x", "w", "b")
