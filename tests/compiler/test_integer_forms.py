"""Quantised concat and constants, and layer normalisation on devices of integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stages.compiler.passes.integer_forms import (
    QuantizeConcat,
    QuantizeConstants,
    QuantizeTables,
)
from stages.compiler.passes.integer_masks import QuantizeMasks
from stages.compiler.passes.lower_norms import LowerLayerNorm
from stages.recipe.semantics import interpret
from tests.compiler.passing import draft_of, run_pass, tidy
from tests.compiler.specs import hardware

CONCAT = """
    input %x : f32[1,2,3]
    const %c : f32[1,1,3]
    const %s : f32[]
    const %z : i8[]
    %j : f32[1,3,3] = concat(%c, %x) {axis=1}
    %y : i8[1,3,3] = quantize(%j, %s, %z) {axis=-1}
    output %y
    """
NORM = """
    input %x : i8[4,64]
    const %s : f32[]
    const %t : f32[]
    const %g : f32[64]
    const %b : f32[64]
    %f : f32[4,64] = dequantize(%x, %s) {axis=-1} # d
    %n : f32[4,64] = layer_norm(%f, %g, %b) {axis=1, epsilon=1e-5}
    %y : i8[4,64] = quantize(%n, %t) {axis=-1}
    output %y
    """


def test_what_is_joined_is_joined_as_integers() -> None:
    ran = run_pass(QuantizeConcat(), CONCAT, {"s": 0.05, "z": 3})
    assert ran.graph_text == tidy(
        """
        input %x : f32[1,2,3]
        const %s : f32[]
        const %z : i8[]
        const %c.i8 : i8[1,1,3]
        %x.i8 : i8[1,2,3] = quantize(%x, %s, %z) {axis=-1} # j.x.quantize
        %y : i8[1,3,3] = concat(%c.i8, %x.i8) {axis=1} # j
        output %y
        """
    )


TABLE = """
    input %i : i32[2]
    const %c : f32[5,3]
    const %s : f32[]
    const %z : i8[]
    %j : f32[2,3] = gather(%c, %i) {axis=0}
    %y : i8[2,3] = quantize(%j, %s, %z) {axis=-1}
    output %y
    """


@pytest.mark.parametrize("name", ["rk3588_npu", "ethos_u65_512", "edge_tpu"])
def test_a_table_is_gathered_as_integers(name: str) -> None:
    """Also where the host gathers."""
    spec = hardware(name)
    random = np.random.default_rng(0)
    draft = draft_of(TABLE, {"s": 0.05, "z": 3, "c": random.normal(size=(5, 3)) * 4}, spec)
    after = QuantizeTables().run(draft, spec)
    (gather,) = after.graph.operators
    assert after.constants[gather.inputs[0]].dtype == np.int8
    feeds = {"i": np.array([4, 1], np.int32)}
    before, found = (interpret(one.graph, one.constants, feeds)["y"] for one in (draft, after))
    np.testing.assert_array_equal(found, before)


def test_a_table_stays_where_others_read_what_is_gathered_or_integers_are_not_gathered() -> None:
    spec = hardware("rk3588_npu")
    gathers = spec.operators["gather"]
    floats = replace(gathers, dtypes=gathers.dtypes - {"i8"})
    only = replace(spec, operators={**spec.operators, "gather": floats})
    shared = TABLE.replace("output %y", "output %y\n    output %j")
    wide = {"s": 0.05, "z": 3, "c": np.full((5, 3), np.inf)}
    for device, text, constants in (
        (only, TABLE, {"s": 0.05, "z": 3}),
        (spec, shared, {"s": 0.05, "z": 3}),
        (spec, TABLE, wide),
    ):
        after = QuantizeTables().run(draft_of(text, constants, device), device)
        assert [op.kind for op in after.graph.operators] == ["gather", "quantize"]


def test_constants_are_integers_where_a_device_has_nothing_else() -> None:
    text = """
        input %x : i8[2,3]
        const %s : f32[]
        const %c : f32[3]
        %f : f32[2,3] = dequantize(%x, %s) {axis=-1} # d
        %y : f32[2,3] = add(%f, %c)
        output %y
        """
    ran = run_pass(QuantizeConstants(), text, {"s": 0.05}, spec=hardware("ethos_u65_512"),
                   tolerance=1e-4)  # fmt: skip
    assert ran.after.graph.types["c.i16"].dtype == "i16"
    assert ran.kinds == ["dequantize", "dequantize", "add"]
    assert run_pass(QuantizeConstants(), text, {"s": 0.05}).kinds == ["dequantize", "add"]


@pytest.mark.parametrize(("spread", "steps"), [(1.0, 1), (0.05, 3)])
def test_layer_normalisation_in_integers(spread: float, steps: int) -> None:
    """Close for rows that use the whole range, and for ones that take five of its values."""
    spec = hardware("ethos_u65_512")
    data = {"s": 0.05, "t": 0.04, "b": 0.1}
    before = draft_of(NORM, data, spec)
    after = QuantizeConstants().run(LowerLayerNorm().run(before, spec), spec)
    random = np.random.default_rng(5)
    rows = np.clip(np.rint(random.normal(size=(4, 64)) * 40 * spread + 9), -128, 127)
    feeds = {"x": rows.astype(np.int8)}
    wanted = interpret(before.graph, before.constants, feeds)["y"]
    found = interpret(after.graph, after.constants, feeds)["y"]
    assert np.abs(found.astype(int) - wanted.astype(int)).max() <= steps
    assert "layer_norm" not in {op.kind for op in after.graph.operators}


def test_layer_normalisation_stays_where_the_device_has_it_or_lacks_the_arithmetic() -> None:
    data = {"s": 0.05, "t": 0.04}
    for name in ("rk3588_npu", "edge_tpu"):
        ran = run_pass(LowerLayerNorm(), NORM, data, spec=hardware(name), tolerance=0.1)
        assert "layer_norm" in ran.kinds


def test_a_row_of_equal_values_stays_finite() -> None:
    spec = hardware("ethos_u65_512")
    before = draft_of(NORM, {"s": 0.05, "t": 0.04}, spec)
    after = LowerLayerNorm().run(before, spec)
    feeds = {"x": np.full((4, 64), 7, np.int8)}
    wanted = interpret(before.graph, before.constants, feeds)["y"].astype(int)
    found = interpret(after.graph, after.constants, feeds)["y"].astype(int)
    assert np.abs(found - wanted).max() <= 1


MASKED = """
    input %q : i8[1,2,4,4]
    input %k : bool[1,1,1,4]
    const %s : f32[]
    const %0 : f32[]
    const %low : f32[]
    %m : f32[1,1,1,4] = where(%k, %0, %low)
    %f : f32[1,2,4,4] = dequantize(%q, %s) {axis=-1} # d
    %a : f32[1,2,4,4] = add(%f, %m)
    %y : f32[1,2,4,4] = softmax(%a) {axis=3, undefined=zero}
    output %y
    """


@pytest.mark.parametrize("low", [-np.inf, -3.4e38, -1e4])
def test_a_mask_is_added_in_integers_where_a_device_has_nothing_else(low: float) -> None:
    spec = hardware("ethos_u65_512")
    before = draft_of(MASKED, {"s": 0.05, "0": 0.0, "low": low}, spec)
    after = QuantizeMasks().run(before, spec)
    feeds = {
        "q": np.random.default_rng(3).integers(-128, 128, (1, 2, 4, 4)).astype(np.int8),
        "k": np.array([True, True, False, True]).reshape(1, 1, 1, 4),
    }
    wanted = interpret(before.graph, before.constants, feeds)["y"]
    found = interpret(after.graph, after.constants, feeds)["y"]
    assert np.abs(found - wanted).max() < 1e-3
    assert found[..., 2].max() < 1e-8
    stored = {str(item.dtype) for item in after.graph.types.values()}
    assert {"i8", "i16"} <= stored


def test_a_mask_of_other_numbers_stays() -> None:
    for low, name in ((-5.0, "ethos_u65_512"), (-np.inf, "rk3588_npu")):
        ran = run_pass(QuantizeMasks(), MASKED, {"s": 0.05, "0": 0.0, "low": low},
                       spec=hardware(name))  # fmt: skip
        assert sorted(ran.kinds) == ["add", "dequantize", "softmax", "where"]


ADDED_BEHIND_A_PRODUCT = """
    input %q : f32[1,2,4,8]
    input %t : f32[1,2,8,4]
    input %k : bool[1,1,1,4]
    const %s : f32[]
    const %z : i8[]
    const %0 : f32[]
    const %low : f32[]
    %m : f32[1,1,1,4] = where(%k, %0, %low)
    %p : f32[1,2,4,4] = matmul(%q, %t)
    %a : f32[1,2,4,4] = add(%p, %m)
    %i : i8[1,2,4,4] = quantize(%a, %s, %z) {axis=-1} # i
    %f : f32[1,2,4,4] = dequantize(%i, %s, %z) {axis=-1} # f
    %y : f32[1,2,4,4] = softmax(%f) {axis=3}
    output %y
    """


def test_an_output_stage_adds_a_mask_in_int8_where_the_list_has_no_int16() -> None:
    """Or the product of every masked attention would be the host's, for its mask was float."""
    spec = hardware("edge_tpu")
    data = {"s": 0.0625, "z": 0, "0": 0.0, "low": -np.inf}
    before = draft_of(ADDED_BEHIND_A_PRODUCT, data, spec)
    after = QuantizeMasks().run(before, spec)
    random = np.random.default_rng(3)
    feeds = {
        "q": random.standard_normal((1, 2, 4, 8)).astype(np.float32),
        "t": random.standard_normal((1, 2, 8, 4)).astype(np.float32),
        "k": np.array([True, True, False, True]).reshape(1, 1, 1, 4),
    }
    found = interpret(after.graph, after.constants, feeds)["y"]
    scores = np.matmul(feeds["q"], feeds["t"]) + np.where(feeds["k"], 0.0, -np.inf)
    wanted = np.exp(scores - scores.max(-1, keepdims=True))
    wanted /= wanted.sum(-1, keepdims=True)
    assert np.abs(found - wanted).max() < 0.03  # a step is 0.09: scores are off by 0.05
    assert found[..., 2].max() < 1e-3
    (total,) = (op for op in after.graph.operators if op.kind == "add")
    makers = after.graph.producers()
    assert makers[total.inputs[1]].kind == "dequantize"
    readers = after.graph.consumers()[total.outputs[0]]
    assert {op.kind for op in readers} == {"quantize"}


def test_a_range_that_holds_the_mask_itself_leaves_it_in_float() -> None:
    data = {"s": 1e4, "z": 127, "0": 0.0, "low": -np.inf}
    spec = hardware("edge_tpu")
    before = draft_of(ADDED_BEHIND_A_PRODUCT, data, spec)
    after = QuantizeMasks().run(before, spec)
    assert {op.name for op in after.graph.operators} == {op.name for op in before.graph.operators}
