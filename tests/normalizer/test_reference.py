"""The ONNX Runtime reference: deterministic, float meaning, clear refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from models.faults import bfloat16_perceptron
from models.synthetic import quantized_cnn, residual_cnn
from stages.errors import InputError
from stages.normalizer.pinning import pin_inputs
from stages.normalizer.reference import OnnxRuntimeReference
from tests.normalizer.graphs import from_text, normalized, through_stage

IMAGE = np.random.default_rng(1).standard_normal((1, 3, 32, 32)).astype(np.float32)


def test_two_runs_are_equal_to_the_bit(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(residual_cnn(), path)
    results = [OnnxRuntimeReference(m).run({"image": IMAGE}) for m in (path, residual_cnn())]
    np.testing.assert_array_equal(results[0]["scores"], results[1]["scores"])


def test_names() -> None:
    reference = OnnxRuntimeReference(residual_cnn())
    assert reference.input_names == ("image",)
    assert reference.output_names == ("scores",)
    assert not reference.is_widened


def test_a_quantised_graph_computes_its_float_meaning() -> None:
    """The onnx package's own evaluator, operator by operator, is the independent judge."""
    from onnx.reference import ReferenceEvaluator

    model = quantized_cnn()
    newer = quantized_cnn()
    newer.opset_import[0].version = 21  # the evaluator's oldest; the graph means the same there
    (wanted,) = ReferenceEvaluator(newer).run(None, {"image": IMAGE})
    got = OnnxRuntimeReference(model).run({"image": IMAGE})["scores"]
    spread = float(np.abs(wanted).max())
    assert float(np.abs(wanted - got).max()) < 0.02 * spread


def test_bfloat16_is_computed_in_float32() -> None:
    model = bfloat16_perceptron()
    reference = OnnxRuntimeReference(model)
    assert reference.is_widened
    x = np.random.default_rng(2).standard_normal((4, 64)).astype(np.float32)
    got = reference.run({"x": x})["y"]
    assert got.dtype == np.float32
    values = {t.name: onnx.numpy_helper.to_array(t).astype(np.float64)
              for t in model.graph.initializer}  # fmt: skip
    hidden = x @ values["w1"].T + values["b1"]
    erf = np.vectorize(__import__("math").erf)
    gelu = hidden * (erf(hidden / values["root"]) + 1) * 0.5
    logits = gelu @ values["w2"].T + values["b2"]
    wanted = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_convolutions_in_float64_are_computed_in_float32(tmp_path: Path) -> None:
    weight = np.random.default_rng(4).standard_normal((2, 1, 3, 3))
    model = from_text(
        "g (double[1,1,5,5] x) => (double[1,2,3,3] y) { c = Conv (x, w) y = Relu (c) }",
        {"w": weight},
    )
    reference = OnnxRuntimeReference(model)
    assert reference.is_widened
    x = np.random.default_rng(5).standard_normal((1, 1, 5, 5))
    windows = np.lib.stride_tricks.sliding_window_view(x[0, 0], (3, 3))
    wanted = np.maximum(np.einsum("hwij,oij->ohw", windows, weight[:, 0]), 0)
    np.testing.assert_allclose(reference.run({"x": x})["y"][0], wanted, rtol=1e-5, atol=1e-6)
    report, _ = through_stage(model, tmp_path)
    assert report.proof.compared_with == "the original in float32"
    assert report.outputs == {"y": "f64[1,2,3,3]"}


def test_a_missing_input() -> None:
    with pytest.raises(InputError, match="no sample for input 'image'"):
        OnnxRuntimeReference(residual_cnn()).run({})


def test_an_input_of_the_wrong_shape() -> None:
    with pytest.raises(InputError) as caught:
        OnnxRuntimeReference(residual_cnn()).run({"image": IMAGE[:, :2]})
    assert "ONNX Runtime can't run the model" in caught.value.problem
    assert "onnxruntime_src" not in str(caught.value)


def test_a_model_that_it_refuses_names_the_operator(tmp_path: Path) -> None:
    model = from_text("g (int16[4] x, int16[4] z) => (int16[4] y) { y = Max (x, z) }")
    with pytest.raises(InputError) as caught:
        OnnxRuntimeReference(model)
    assert "Max" in caught.value.problem
    assert "no kernel for these element types" in caught.value.hint
    assert "ONNXRuntimeError" not in caught.value.problem


def test_pinned_inputs_fold_away(tmp_path: Path) -> None:
    model = from_text(
        "g (float[2,6] x, int64[2] shape) => (float[a,b] y) { y = Reshape (x, shape) }"
    )
    with pytest.raises(InputError, match="Reshape"):
        normalized(model, tmp_path)
    pinned = pin_inputs(model, {"shape": np.array([3, 4])})
    assert [value.name for value in pinned.graph.input] == ["x"]
    assert normalized(pinned, tmp_path).operators_after == {"Reshape": 1}
    with pytest.raises(InputError, match="no input 'size'"):
        pin_inputs(model, {"size": np.array([3, 4])})
