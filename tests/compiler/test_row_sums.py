"""Layer normalisation and softmax whose rows the tensor core sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stages.compiler.draft import Draft
from stages.compiler.passes.defer_softmax import DeferSoftmax
from stages.compiler.passes.lower_norms import LowerLayerNorm
from stages.hardware.spec import HardwareSpec
from stages.recipe.semantics import interpret
from tests.compiler.passing import draft_of
from tests.compiler.specs import hardware

NORM = """
    input %x : i8[128,768]
    const %s : f32[]
    const %z : i8[]
    const %t : f32[]
    const %g : f32[768]
    const %b : f32[768]
    %f : f32[128,768] = dequantize(%x, %s, %z) {axis=-1} # d
    %n : f32[128,768] = layer_norm(%f, %g, %b) {axis=1, epsilon=1e-12}
    %y : i8[128,768] = quantize(%n, %t) {axis=-1}
    output %y
    """
NUMBERS = {"s": 0.05, "z": 11, "t": 0.03, "b": 0.1}
ATTENTION = """
    input %x : i8[4,128,128]
    input %v : i8[4,128,64]
    const %s : f32[]
    const %z : i8[]
    const %p : f32[]
    const %q : i8[]
    const %t : f32[]
    %f : f32[4,128,128] = dequantize(%x, %s, %z) {axis=-1} # d
    %n : f32[4,128,128] = softmax(%f) {axis=2} # soft
    %o : i8[4,128,128] = quantize(%n, %p, %q) {axis=-1}
    %r : f32[4,128,128] = dequantize(%o, %p, %q) {axis=-1} # e
    %w : f32[4,128,64] = dequantize(%v, %s) {axis=-1} # h
    %m : f32[4,128,64] = matmul(%r, %w) # product
    %y : i8[4,128,64] = quantize(%m, %t) {axis=-1}
    output %y
    """
SCALES = {"s": 0.05, "z": 11, "p": 1 / 255, "q": -128, "t": 0.02}


def _slow_vector(name: str, cycles: int) -> HardwareSpec:
    """A device whose softmax and layer normalisation take so many cycles a vector."""
    spec = hardware(name)
    slow = {**spec.vector.cycles_by_kind, "layer_norm": cycles, "softmax": cycles}
    return replace(spec, vector=replace(spec.vector, cycles_by_kind=slow))


def _rows(spread: float) -> np.ndarray:
    random = np.random.default_rng(5)
    rows = random.normal(size=(128, 768)) * 40 * spread + random.normal(size=(128, 1)) * 20
    return np.clip(np.rint(rows), -128, 127).astype(np.int8)


def _steps_of(draft: Draft, feeds: dict[str, np.ndarray]) -> np.ndarray:
    return interpret(draft.graph, draft.constants, feeds)["y"].astype(int)


@pytest.mark.parametrize(("spread", "steps"), [(1.0, 1), (0.05, 2)])
def test_layer_normalisation_by_products(spread: float, steps: int) -> None:
    """Close for rows that use the whole range, and for ones that take few of its values."""
    spec = hardware("rk3588_npu")
    before = draft_of(NORM, NUMBERS, spec)
    after = LowerLayerNorm().run(before, spec)
    kinds = [op.kind for op in after.graph.operators]
    assert "layer_norm" not in kinds
    assert kinds.count("matmul") == 2
    feeds = {"x": _rows(spread)}
    wanted, found = _steps_of(before, feeds), _steps_of(after, feeds)
    assert np.abs(found - wanted).max() <= steps


def test_a_row_of_equal_values_is_the_bias() -> None:
    spec = hardware("rk3588_npu")
    before = draft_of(NORM, NUMBERS, spec)
    after = LowerLayerNorm().run(before, spec)
    feeds = {"x": np.full((128, 768), 101, np.int8)}
    wanted, found = _steps_of(before, feeds), _steps_of(after, feeds)
    assert np.abs(found - wanted).max() <= 1


def test_products_are_taken_where_they_cost_less() -> None:
    for cycles, taken in ((2, False), (35, True)):
        spec = _slow_vector("rk3588_npu", cycles)
        after = LowerLayerNorm().run(draft_of(NORM, NUMBERS, spec), spec)
        assert ("layer_norm" not in {op.kind for op in after.graph.operators}) is taken
        (weighed,) = after.weighed
        costs = {item.name: item.cost_cycles or 0 for item in weighed.alternatives}
        assert weighed.chosen == ("products" if taken else "one operator")
        assert taken is (costs["products"] <= 0.9 * costs["one operator"])


def test_an_epsilon_beyond_all_numbers_is_left_alone() -> None:
    spec = hardware("rk3588_npu")
    text = NORM.replace("epsilon=1e-12", "epsilon=1e6")
    after = LowerLayerNorm().run(draft_of(text, NUMBERS, spec), spec)
    assert "layer_norm" in {op.kind for op in after.graph.operators}


def test_the_product_behind_a_softmax_divides() -> None:
    spec = hardware("rk3588_npu")
    before = draft_of(ATTENTION, SCALES, spec)
    after = DeferSoftmax().run(before, spec)
    kinds = [op.kind for op in after.graph.operators]
    assert "softmax" not in kinds
    assert kinds.count("softmax_numerator") == 1
    assert kinds.count("matmul") == 2
    random = np.random.default_rng(7)
    feeds = {
        "x": np.clip(random.normal(size=(4, 128, 128)) * 40, -128, 127).astype(np.int8),
        "v": random.integers(-128, 128, (4, 128, 64)).astype(np.int8),
    }
    wanted, found = _steps_of(before, feeds), _steps_of(after, feeds)
    x = (feeds["x"].astype(float) - 11) * 0.05
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    truth = (e / e.sum(axis=-1, keepdims=True)) @ (feeds["v"] * 0.05) / 0.02
    assert np.abs(found - truth).mean() <= np.abs(wanted - truth).mean()


def test_a_softmax_stays_where_it_is_quick_read_twice_or_its_parts_are_not_listed() -> None:
    quick = _slow_vector("rk3588_npu", 2)
    lacking = hardware("ethos_u65_512")
    twice = ATTENTION.replace("output %y", "output %y\n    output %o")
    for spec, text in ((quick, ATTENTION), (lacking, ATTENTION), (hardware("rk3588_npu"), twice)):
        after = DeferSoftmax().run(draft_of(text, SCALES, spec), spec)
        assert "softmax" in {op.kind for op in after.graph.operators}
