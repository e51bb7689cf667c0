"""Training-mode operators: put in inference mode, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from stages.errors import InputError
from tests.normalizer.graphs import from_text, normalized, operators, through_stage

NORM = {name: np.linspace(0.5, 1.5, 3, dtype=np.float32) for name in ("s", "b", "m", "v")}


def test_batch_norm_in_training_mode(tmp_path: Path) -> None:
    model = from_text(
        "g (float[2,3,4] x) => (float[2,3,4] y) "
        "{ y, rm, rv = BatchNormalization <training_mode=1> (x, s, b, m, v) }",
        NORM,
    )
    report, written = through_stage(model, tmp_path)
    (node,) = written.graph.node
    assert list(node.output) == ["y"]
    assert not [a for a in node.attribute if a.name == "training_mode"]
    assert report.proof.compared_with == "the original after inference mode"


def test_batch_norm_whose_statistics_are_read(tmp_path: Path) -> None:
    model = from_text(
        "g (float[2,3,4] x) => (float[2,3,4] y, float[3] rm) "
        "{ y, rm, rv = BatchNormalization <training_mode=1> (x, s, b, m, v) }",
        NORM,
    )
    model.graph.node[0].name = "bn1"
    with pytest.raises(InputError) as caught:
        normalized(model, tmp_path)
    assert "running statistics 'rm' are read" in caught.value.problem
    assert "'bn1'" in caught.value.where
    assert "model.eval()" in caught.value.hint


def test_batch_norm_of_operator_set_9_in_training_mode(tmp_path: Path) -> None:
    model = from_text(
        "g (float[2,3,4] x) => (float[2,3,4] y) "
        "{ y, a, c, d, e = BatchNormalization (x, s, b, m, v) }",
        NORM, opset=9,
    )  # fmt: skip
    report, written = through_stage(model, tmp_path)
    assert operators(written) == ["BatchNormalization"]
    assert report.proof.compared_with == "the original after inference mode"


@pytest.mark.parametrize("training", [True, False])
def test_dropout_goes_whatever_its_mode(tmp_path: Path, training: bool) -> None:
    model = from_text(
        "g (float[4] x) => (float[4] y) { a = Neg (x) d = Dropout (a, r, t) y = Exp (d) }",
        {"r": np.float32(0.5), "t": np.bool_(training)},
    )
    report, written = through_stage(model, tmp_path)
    assert operators(written) == ["Neg", "Exp"]
    assert report.proof.compared_with == (
        "the original after inference mode" if training else "the original"
    )


def test_dropout_whose_mode_is_an_input(tmp_path: Path) -> None:
    model = from_text(
        "g (float[4] x, bool t) => (float[4] y) { d = Dropout (x, r, t) y = Exp (d) }",
        {"r": np.float32(0.5)},
    )
    report, written = through_stage(model, tmp_path)
    assert operators(written) == ["Exp"]
    assert list(report.inputs) == ["x", "t"]


def test_dropout_whose_mask_is_read_gives_a_mask_of_ones(tmp_path: Path) -> None:
    model = from_text(
        "g (float[4] x) => (float[4] y, bool[4] mask) { y, mask = Dropout (x, r, t) }",
        {"r": np.float32(0.5), "t": np.bool_(True)},
    )
    _, written = through_stage(model, tmp_path)
    assert operators(written) == ["Identity", "Identity"]
    (mask,) = written.graph.initializer
    assert onnx.numpy_helper.to_array(mask).tolist() == [True] * 4


def test_dropout_that_is_the_output(tmp_path: Path) -> None:
    model = from_text("g (float[4] x) => (float[4] y) { a = Neg (x) y = Dropout (a) }")
    _, written = through_stage(model, tmp_path)
    assert operators(written) == ["Neg"]
    assert written.graph.output[0].name == "y"


def test_training_mode_inside_a_branch(tmp_path: Path) -> None:
    model = from_text(
        """
        g (float[2,3,4] x, bool c) => (float[2,3,4] y) {
          y = If (c) < then_branch = t () => (float[2,3,4] a)
              { a, p, q = BatchNormalization <training_mode=1> (x, s, b, m, v) },
            else_branch = e () => (float[2,3,4] k) { k = Neg (x) }>
        }
        """,
        NORM,
    )
    report, _ = through_stage(model, tmp_path)
    assert {"name": "inference mode", "done": "1 BatchNormalization"} in report.steps


def test_batch_norm_stays_apart_from_conv(tmp_path: Path) -> None:
    from models.faults import conv_bn_cast, conv_bn_cast16, conv_bn_dropout, conv_bn_identity

    clean = ["Conv", "BatchNormalization", "Relu"] * 2 + ["GlobalAveragePool"]
    for build in (conv_bn_cast, conv_bn_dropout, conv_bn_identity):
        _, written = through_stage(build(), tmp_path)
        assert operators(written) == clean
    _, written = through_stage(conv_bn_cast16(), tmp_path)
    assert operators(written).count("Cast") == 4


def test_split_left_with_an_attribute_of_set_18_is_mended(tmp_path: Path) -> None:
    """torch's exporter, asked for operator set 17, writes this; ONNX Runtime refuses it."""
    model = from_text(
        "g (float[6,2] x) => (float[3,2] a, float[3,2] b) { a, b = Split <num_outputs=2> (x) }"
    )
    report, written = through_stage(model, tmp_path)
    assert report.proof.compared_with == "the original after mending"
    assert not written.graph.node[0].attribute
