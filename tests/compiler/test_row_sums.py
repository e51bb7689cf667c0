"""Layer normalisation and softmax whose rows the tensor core sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from stages.compiler.draft import Draft, Pass
from stages.compiler.passes.defer_softmax import DeferSoftmax
from stages.compiler.passes.lower_norms import LowerLayerNorm
from stages.compiler.pipeline import compile_graph
from stages.device.functional import Machine
from stages.hardware.spec import HardwareSpec
from stages.recipe.semantics import interpret
from tests.compiler.judged import case_of, judge_plan, own_ranges
from tests.compiler.passing import Data, draft_of
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


def _around(step: Pass, text: str, numbers: Data) -> tuple[Draft, Draft]:
    """A draft before a pass for `rk3588_npu`, and behind it."""
    spec = hardware("rk3588_npu")
    before = draft_of(text, numbers, spec)
    return before, step.run(before, spec)


def _rows(spread: float) -> np.ndarray:
    random = np.random.default_rng(5)
    rows = random.normal(size=(128, 768)) * 40 * spread + random.normal(size=(128, 1)) * 20
    return np.clip(np.rint(rows), -128, 127).astype(np.int8)


def _steps_of(draft: Draft, feeds: dict[str, np.ndarray]) -> np.ndarray:
    return interpret(draft.graph, draft.constants, feeds)["y"].astype(int)


@pytest.mark.parametrize(("spread", "steps"), [(1.0, 1), (0.05, 2)])
def test_layer_normalisation_by_products(spread: float, steps: int) -> None:
    """Close for rows that use the whole range, and for ones that take few of its values."""
    before, after = _around(LowerLayerNorm(), NORM, NUMBERS)
    kinds = [op.kind for op in after.graph.operators]
    assert "layer_norm" not in kinds
    assert kinds.count("matmul") == 2
    feeds = {"x": _rows(spread)}
    wanted, found = _steps_of(before, feeds), _steps_of(after, feeds)
    assert np.abs(found - wanted).max() <= steps


def test_a_row_of_equal_values_is_the_bias() -> None:
    before, after = _around(LowerLayerNorm(), NORM, NUMBERS)
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
    before, after = _around(DeferSoftmax(), ATTENTION, SCALES)
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


def onnx_model(
    nodes: list[onnx.NodeProto], shape: tuple[int, ...], result: tuple[int, ...], **constants
) -> onnx.ModelProto:
    """From %x to %y, with constants."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)],
        [
            numpy_helper.from_array(np.asarray(data, np.float32), name)
            for name, data in constants.items()
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


def error_on_device(model: onnx.ModelProto, x: np.ndarray, name: str, forms: set[str]) -> float:
    """How far the device is from the float model, over its largest number; nothing overflows.
    `forms` are kinds that the recipe must have."""
    spec = hardware(name)
    case = case_of(model, {"x": x.astype(np.float32)})
    compiled = compile_graph(case.graph, case.constants, spec, own_ranges(case))
    judge_plan(compiled, spec)
    assert forms <= {op.kind for op in compiled.recipe.graph.operators}
    done = Machine(compiled.plan, compiled.weights, spec).run(case.feeds)
    assert not done.overflows
    expected = case.expected["y"]
    return float(np.abs(done.outputs["y"] - expected).max() / np.abs(expected).max())


RANDOM = np.random.default_rng(3)
SOFTMAX = helper.make_node("Softmax", ["x"], ["p"], axis=-1)
LAST = helper.make_node("MatMul", ["q", "w"], ["y"])
BEHIND = RANDOM.normal(size=(32, 16))


@pytest.mark.parametrize("name", ["rk3588_npu", "qualcomm_htp_v73"])
@pytest.mark.parametrize(("count", "low", "high"), [(512, -1, 1), (1024, 50, 150), (1024, 0, 3e-3)])
def test_a_deferred_softmax_is_right_on_the_device(
    count: int, low: float, high: float, name: str
) -> None:
    """Also where the sums of what isn't divided yet are beyond f16, or near its smallest."""
    values = RANDOM.uniform(low, high, (count, 32))
    product = helper.make_node("MatMul", ["p", "v"], ["q"])
    model = onnx_model([SOFTMAX, product, LAST], (128, count), (128, 16), v=values, w=BEHIND)
    x = RANDOM.normal(size=(128, count)) * (0.05 if low else 2)
    assert error_on_device(model, x, name, {"softmax_numerator"}) < 0.1


def test_a_product_with_a_bias_divides_nothing() -> None:
    product = helper.make_node("Gemm", ["p", "v", "b"], ["q"])
    values, bias = RANDOM.normal(size=(512, 32)), RANDOM.normal(size=32) * 3
    nodes = [SOFTMAX, product, LAST]
    model = onnx_model(nodes, (512, 512), (512, 16), v=values, b=bias, w=BEHIND)
    x = RANDOM.normal(size=(512, 512)) * 2
    assert error_on_device(model, x, "rk3588_npu", {"softmax"}) < 0.05


@pytest.mark.parametrize("name", ["rk3588_npu", "npu_tiny", "qualcomm_htp_v73"])
@pytest.mark.parametrize("kind", ["Softmax", "Relu"])
def test_a_value_is_multiplied_with_itself(kind: str, name: str) -> None:
    nodes = [
        helper.make_node(kind, ["x"], ["p"]),
        helper.make_node("MatMul", ["p", "p"], ["q"]),
        LAST,
    ]
    behind = RANDOM.normal(size=(256, 16))
    model = onnx_model(nodes, (256, 256), (256, 16), w=behind)
    assert error_on_device(model, RANDOM.normal(size=(256, 256)) * 2, name, {"matmul"}) < 0.1


@pytest.mark.parametrize("name", ["rk3588_npu", "ethos_u65_512"])
def test_a_lowered_norm_is_right_on_the_device(name: str) -> None:
    norm = helper.make_node("LayerNormalization", ["x2", "s", "b"], ["q"], axis=-1)
    nodes = [helper.make_node("Relu", ["x"], ["x2"]), norm, LAST]
    scale, bias = RANDOM.uniform(0.5, 2, 768), RANDOM.normal(size=768)
    behind = RANDOM.normal(size=(768, 16))
    model = onnx_model(nodes, (128, 768), (128, 16), s=scale, b=bias, w=behind)
    x = RANDOM.normal(size=(128, 768)) * RANDOM.uniform(1, 4, (128, 1))
    assert error_on_device(model, x, name, {"matmul", "reciprocal"}) < 0.05


def test_a_norm_of_sixteen_bits_stays_one_operator() -> None:
    text = NORM.replace("%x : i8[128,768]", "%x : i16[128,768]").replace("const %z : i8[]\n", "")
    text = text.replace("dequantize(%x, %s, %z)", "dequantize(%x, %s)")
    for name in ("ethos_u65_512", "rk3588_npu"):
        after = LowerLayerNorm().run(draft_of(text, {"s": 0.05, "t": 0.03}), hardware(name))
        assert [op.kind for op in after.graph.operators] == ["dequantize", "layer_norm", "quantize"]
