"""Operator sets 6 to 24 come out as 17, and compute the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from stages.errors import InputError
from tests.normalizer.graphs import check_form, from_text, normalized, operators, through_stage

RNG = np.random.default_rng(3)
KERNEL = RNG.standard_normal((4, 2, 3, 3)).astype(np.float32)
NORM = {name: RNG.uniform(0.5, 1.5, 4).astype(np.float32) for name in ("scale", "b", "mean", "var")}
MATRIX = RNG.standard_normal((4, 5)).astype(np.float32)
BIAS = RNG.standard_normal(5).astype(np.float32)


def network(opset: int) -> onnx.ModelProto:
    """Conv, BatchNormalization, Dropout, ReLU, pooling, Squeeze, Gemm, Softmax, as the set says."""
    test = ", is_test=1" if opset < 7 else ""
    drop = "Dropout <is_test=1>" if opset < 7 else "Dropout"
    squeeze = "Squeeze <axes=[2,3]> (g)" if opset < 13 else "Squeeze (g, axes)"
    broadcast = ", broadcast=1" if opset < 7 else ""
    model = from_text(
        f"""
        g (float[1,2,6,6] x) => (float[1,5] y) {{
          c = Conv <pads=[1,1,1,1]> (x, k)
          n = BatchNormalization <epsilon=0.001{test}> (c, scale, b, mean, var)
          d = {drop} (n)
          r = Relu (d)
          g = GlobalAveragePool (r)
          s = {squeeze}
          m = Gemm <alpha=1.0{broadcast}> (s, w, bias)
          y = Softmax <axis=1> (m)
        }}
        """,
        {"k": KERNEL, "w": MATRIX, "bias": BIAS, **NORM},
        opset=opset,
        ir_version=4,
    )
    if opset >= 13:
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([2, 3]), "axes"))
    return model


@pytest.mark.parametrize("opset", range(7, 25))
def test_a_network_of_each_operator_set(tmp_path: Path, opset: int) -> None:
    report, written = through_stage(network(opset), tmp_path)
    assert report.opset_from == opset
    assert report.proof.compared_with == "the original"
    assert operators(written)[:3] == ["Conv", "BatchNormalization", "Relu"]
    assert (report.opset_from == 17) == ("opset" not in [step["name"] for step in report.steps])


def test_operator_set_6_computes_what_17_does(tmp_path: Path) -> None:
    """ONNX Runtime begins at 7, so the comparison is with the same network in 17."""
    from stages.normalizer.reference import OnnxRuntimeReference

    old = normalized(network(6), tmp_path).model
    check_form(old)
    x = RNG.standard_normal((1, 2, 6, 6)).astype(np.float32)
    results = [OnnxRuntimeReference(model).run({"x": x})["y"] for model in (old, network(17))]
    np.testing.assert_allclose(*results, rtol=1e-5)


def test_the_stage_says_why_it_has_no_comparison_for_operator_set_6(tmp_path: Path) -> None:
    report, _ = through_stage(network(6), tmp_path)
    assert report.proof.compared_with == ""
    assert "ONNX Runtime refuses the model" in report.proof.reason


def test_upsampling_of_operator_set_9_becomes_resize(tmp_path: Path) -> None:
    model = from_text(
        'g (float[1,1,2,3] x) => (float[1,1,4,6] y) { y = Upsample <mode="nearest"> (x, scales) }',
        {"scales": np.array([1, 1, 2, 2], np.float32)}, opset=9,
    )  # fmt: skip
    _, written = through_stage(model, tmp_path)
    assert operators(written) == ["Resize"]


def test_old_forms_inside_a_branch_are_raised_too(tmp_path: Path) -> None:
    model = from_text(
        """
        g (float[2,1,3] x, float limit) => (float[2,3] y) {
          total = ReduceSum <axes=[0,1,2], keepdims=0> (x)
          high = Greater (total, limit)
          y = If (high) <
            then_branch = t () => (float[2,3] a) { a = Squeeze <axes=[1]> (x) },
            else_branch = e () => (float[2,3] b) { c = Neg (x) b = Squeeze <axes=[1]> (c) }>
        }
        """,
        opset=11,
    )
    report, _ = through_stage(model, tmp_path)
    assert report.proof.compared_with == "the original"


@pytest.mark.parametrize(
    ("graph", "weights", "kinds"),
    [
        ("g (float[2,3,4] x) => (float[2,1,4] y) { y = ReduceMean (x, axes) }",
         {"axes": np.array([1])}, ["ReduceMean"]),
        ("g (float[2,3,4] x) => (float[1,1,1] y) { y = ReduceMax (x) }", {}, ["ReduceMax"]),
        ("g (float[2,3] x) => (float[2,3] y) { r = ReduceL2 <noop_with_empty_axes=1> (x, none) "
         "y = Neg (r) }", {"none": np.array([], np.int64)}, ["Abs", "Neg"]),
        ("g (float[2,3] x) => (float[2,3] y) { y = ReduceSumSquare <noop_with_empty_axes=1> (x) }",
         {}, ["Mul"]),
        ("g (float[6,2] x) => (float[2,2] a, float[2,2] b, float[2,2] c) "
         "{ a, b, c = Split <num_outputs=3> (x) }", {}, ["Split"]),
        ("g (float[7,2] x) => (float[3,2] a, float[3,2] b, float[1,2] c) "
         "{ a, b, c = Split <num_outputs=3> (x) }", {}, ["Split"]),
        ('g (float[1,2,4,4] x) => (float[1,2,6,5] y) { y = Pad <mode="edge"> (x, pads, "", axes) }',
         {"pads": np.array([1, 0, 1, 1]), "axes": np.array([-2, -1])}, ["Pad"]),
        ('g (float[1,2,4,4] x) => (float[1,2,8,6] y) '
         '{ y = Resize <mode="linear", axes=[2,3], antialias=0> (x, "", "", sizes) }',
         {"sizes": np.array([8, 6])}, ["Resize"]),
        ('g (float[1,2,4,4] x) => (float[1,2,8,6] y) '
         '{ y = Resize <mode="cubic", axes=[3,2]> (x, "", scales) }',
         {"scales": np.array([1.5, 2], np.float32)}, ["Resize"]),
        ('g (float[1,2,4,4] x) => (float[1,2,6,6] y) { y = Resize <mode="nearest", axes=[2,3], '
         'keep_aspect_ratio_policy="not_larger"> (x, "", "", sizes) }',
         {"sizes": np.array([6, 9])}, ["Resize"]),
        ('g (float[1,2,4,4] x, float[1,3,3,2] p) => (float[1,2,3,3] y) '
         '{ y = GridSample <mode="linear"> (x, p) }', {}, ["GridSample"]),
        ("g (float[1,8,2] x) => (float[1,8,2] y) { y = DFT (x, length, axis) }",
         {"length": np.int64(8), "axis": np.int64(1)}, ["DFT"]),
        ("g (float[2,4] x) => (float16[2,4] y) { y = Cast <to=10, saturate=1> (x) }", {}, ["Cast"]),
        ("g (float[1,2,4,4] x) => (float[1,2,3,3] y) "
         "{ y = AveragePool <kernel_shape=[2,2], dilations=[1,1]> (x) }", {}, ["AveragePool"]),
        ("g (float[2,4] x) => (float[2,4] y) { y = Gelu (x) }", {},
         ["Div", "Erf", "Sum", "Mul", "Mul"]),
        ("g (float[2,4] x) => (float[2,4] y) { y = Mish (x) }", {}, ["Softplus", "Tanh", "Mul"]),
    ],
)  # fmt: skip
def test_newer_forms_are_lowered(
    tmp_path: Path, graph: str, weights: dict[str, np.ndarray], kinds: list[str]
) -> None:
    report, written = through_stage(from_text(graph, weights, opset=20), tmp_path)
    assert report.proof.compared_with == "the original"
    assert operators(written) == kinds


def test_attention_becomes_its_body(tmp_path: Path) -> None:
    model = from_text(
        "g (float[1,2,4,8] q, float[1,2,6,8] k, float[1,2,6,8] v) => (float[1,2,4,8] y) "
        "{ y = Attention (q, k, v) }",
        opset=23,
    )
    report, written = through_stage(model, tmp_path)
    assert report.proof.compared_with == "the original"
    assert operators(written).count("MatMul") == 2
    assert "Softmax" in operators(written)


def test_attention_with_a_cache_and_no_mask_becomes_its_body(tmp_path: Path) -> None:
    """onnx's inliner fails on the operand left empty in the middle."""
    model = from_text(
        """
        g (float[1,2,4,8] q, float[1,2,4,8] k, float[1,2,4,8] v, float[1,2,3,8] pk,
           float[1,2,3,8] pv) => (float[1,2,4,8] y, float[1,2,7,8] nk, float[1,2,7,8] nv)
        { y, nk, nv = Attention <is_causal=1> (q, k, v, "", pk, pv) }
        """,
        opset=23,
    )
    report, written = through_stage(model, tmp_path)
    assert report.proof.compared_with == "the original"
    assert operators(written).count("MatMul") == 2


def test_rms_normalization_becomes_its_body(tmp_path: Path) -> None:
    model = from_text(
        "g (float[2,8] x) => (float[2,8] y) { y = RMSNormalization (x, s) }",
        {"s": np.linspace(0.5, 1.5, 8, dtype=np.float32)}, opset=23,
    )  # fmt: skip
    report, written = through_stage(model, tmp_path)
    assert report.proof.compared_with == "the original"
    assert "ReduceMean" in operators(written)


def test_sixteen_bit_quantisation_goes_to_onnx_runtimes_domain(tmp_path: Path) -> None:
    model = from_text(
        "g (float[2,4] x) => (float[2,4] y) "
        "{ q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }",
        {"s": np.float32(0.001), "z": np.int16(3)}, opset=21,
    )  # fmt: skip
    report, written = through_stage(model, tmp_path)
    assert report.proof.compared_with == "the original"
    assert {node.domain for node in written.graph.node} == {"com.microsoft"}


def test_scales_in_float16_are_widened(tmp_path: Path) -> None:
    model = from_text(
        "g (float16[2,4] x) => (float16[2,4] y) "
        "{ q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }",
        {"s": np.float16(0.05), "z": np.int8(3)}, opset=21,
    )  # fmt: skip
    report, written = through_stage(model, tmp_path)
    assert report.proof.compared_with == "the original"
    assert report.outputs == {"y": "f16[2,4]"}
    assert operators(written) == ["Cast", "QuantizeLinear", "DequantizeLinear", "Cast"]


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        ("g (int32[2] x) => (int32[2] y) { y = BitwiseNot (x) }", "BitwiseNot came after"),
        ('g (float[1,1,4,4] x) => (float[1,1,2,2] y) '
         '{ y = Resize <mode="linear", antialias=1> (x, "", s) }', "antialias=1 of Resize"),
        ('g (float[2,2] x) => (float[4,2] y) { y = Pad <mode="wrap"> (x, p) }', "mode 'wrap'"),
        ("g (float[1,1,5,5] x) => (float[1,1,3,3] y) "
         "{ y = AveragePool <kernel_shape=[2,2], dilations=[2,2]> (x) }", "dilations=(2, 2)"),
    ],
)  # fmt: skip
def test_what_set_17_cannot_say_is_refused(tmp_path: Path, graph: str, said: str) -> None:
    weights = {"s": np.array([1, 1, 0.5, 0.5], np.float32), "p": np.array([1, 0, 1, 0])}
    with pytest.raises(InputError) as caught:
        normalized(from_text(graph, weights, opset=20), tmp_path)
    assert said in caught.value.problem
    assert "has no form in operator set 17" in caught.value.problem
    assert "'y'" in caught.value.where


def test_four_bit_weights_fold_to_floats(tmp_path: Path) -> None:
    from models.faults import int4_weights

    report, written = through_stage(int4_weights(), tmp_path)
    assert report.opset_from == 21
    assert operators(written) == ["MatMul"]


def test_an_operator_set_from_the_future_is_refused(tmp_path: Path) -> None:
    model = from_text("g (float[4] x) => (float[4] y) { y = Relu (x) }", opset=99)
    with pytest.raises(InputError, match="operator set 99 is newer"):
        normalized(model, tmp_path)


def test_a_scan_that_would_lose_its_batch_axis_is_refused(tmp_path: Path) -> None:
    model = from_text(
        """
        g (float[1,2] first, float[1,3,2] x) => (float[1,2] last, float[1,3,2] all) {
          last, all = Scan <num_scan_inputs=1, body = b (float[2] s, float[2] e)
            => (float[2] t, float[2] u) { t = Add (s, e) u = Identity (t) }> ("", first, x)
        }
        """,
        opset=8,
    )
    with pytest.raises(InputError, match="changed the inputs"):
        normalized(model, tmp_path)
