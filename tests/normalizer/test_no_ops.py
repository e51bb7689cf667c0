"""What does nothing goes; what looks like it and does something stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.normalizer.graphs import from_text, operators, through_stage

WEIGHTS = {
    "one": np.float32(1), "ones": np.ones(3, np.float32), "zero": np.float32(0),
    "none": np.zeros(4, np.int64), "shape": np.array([2, 3]), "repeats": np.array([1, 1]),
    "from": np.array([0, 0]), "to": np.array([9, 9]), "axes": np.array([0, 1]),
    "steps": np.array([1, 1]), "back": np.array([-1, 1]), "last": np.array([1, 0]),
    "before": np.array([-9, 9]), "half": np.float32(0.5),
}  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        "b = Mul (a, one)", "b = Div (a, one)", "b = Reshape (a, shape)",
        "b = Expand (a, shape)", "b = Tile (a, repeats)", "b = Pad (a, none)",
        "b = Slice (a, from, to, axes)", "b = Slice (a, from, to, axes, steps)",
        "b = Transpose <perm=[0,1]> (a)", "b = Concat <axis=1> (a)", "b = Sum (a)",
        "b = Clip (a)", "b = Flatten (a)", "b = Cast <to=1> (a)", "b = Identity (a)",
        "b = Dropout (a)", "c = Mul (a, one) b = Identity (c)",
    ],
)  # fmt: skip
def test_no_ops_go(tmp_path: Path, body: str) -> None:
    graph = f"g (float[2,3] x) => (float[2,3] y) {{ a = Neg (x) {body} y = Exp (b) }}"
    _, written = through_stage(from_text(graph, WEIGHTS), tmp_path)
    assert operators(written) == ["Neg", "Exp"]


@pytest.mark.parametrize(
    "body",
    [
        "b = Mul (a, half)", "b = Add (a, zero)", "b = Div (one, a)",
        "b = Slice (a, last, before, axes, back)", 'b = Clip (a, "", half)',
        "b = Sum (a, a)",
    ],
)  # fmt: skip
def test_what_does_something_stays(tmp_path: Path, body: str) -> None:
    graph = f"g (float[2,3] x) => (float[2,3] y) {{ a = Neg (x) {body} y = Exp (b) }}"
    _, written = through_stage(from_text(graph, WEIGHTS), tmp_path)
    assert len(operators(written)) == 3


def test_a_square_transposed_stays(tmp_path: Path) -> None:
    graph = "g (float[3,3] x) => (float[3,3] y) { a = Transpose (x) y = Exp (a) }"
    _, written = through_stage(from_text(graph), tmp_path)
    assert operators(written) == ["Transpose", "Exp"]


def test_factors_that_broadcast_the_other_operand_stay(tmp_path: Path) -> None:
    graph = "g (float[3] x) => (float[2,3] y) { y = Mul (x, wide) }"
    model = from_text(graph, {"wide": np.ones((2, 1), np.float32)})
    _, written = through_stage(model, tmp_path)
    assert operators(written) == ["Mul"]


def test_a_no_op_between_input_and_output_keeps_both_names(tmp_path: Path) -> None:
    model = from_text("g (float[2,3] x) => (float[2,3] y) { y = Mul (x, one) }", WEIGHTS)
    report, written = through_stage(model, tmp_path)
    assert operators(written) == ["Identity"]
    assert (list(report.inputs), list(report.outputs)) == (["x"], ["y"])
