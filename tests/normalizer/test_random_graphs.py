"""Random graphs in random operator sets: normalised, they compute the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.normalizer.graphs import from_text, through_stage

WEIGHTS = {
    "half": np.float32(0.5), "row": np.linspace(-1, 1, 6, dtype=np.float32), "zero": np.array([0]),
    "one": np.array([1]), "big": np.array([99]), "axis": np.array([-1]), "six": np.array([6]),
    "minus": np.array([-1]), "ratio": np.float32(0.3), "yes": np.bool_(True),
}  # fmt: skip
ELEMENTWISE = [
    "Relu ({})", "Neg ({})", "Mul ({}, half)", "Add ({}, row)", "Identity ({})", "Sigmoid ({})",
    "Add ({}, {})", "Cast <to=1> ({})", "Softmax <axis=1> ({})",
]  # fmt: skip


def steps(opset: int) -> st.SearchStrategy[str]:
    """One line each, `{0}` the operand f32[n,6], `{1}` the result of the same shape."""
    mean = (
        "{1}m = ReduceMean <axes=[-1]> ({0})\n{1} = Sub ({0}, {1}m)"
        if opset < 18
        else "{1}m = ReduceMean ({0}, axis)\n{1} = Sub ({0}, {1}m)"
    )
    squeeze = (
        "{1}u = Unsqueeze <axes=[1]> ({0})\n{1} = Squeeze <axes=[1]> ({1}u)"
        if opset < 13
        else "{1}u = Unsqueeze ({0}, one)\n{1} = Squeeze ({1}u, one)"
    )
    split = (
        "{1}a, {1}b = Split <axis=1> ({0})"
        if opset < 18
        else "{1}a, {1}b = Split <axis=1, num_outputs=2> ({0})"
    )
    dropout = "{1} = Dropout ({0})" if opset < 12 else "{1} = Dropout ({0}, ratio)"
    return st.sampled_from(
        [
            *(f"{{1}} = {line.replace('{}', '{0}')}" for line in ELEMENTWISE),
            mean,
            squeeze,
            dropout,
            f"{split}\n{{1}} = Concat <axis=1> ({{1}}b, {{1}}a)",
            "{1}t = Transpose <perm=[1,0]> ({0})\n{1} = Transpose <perm=[1,0]> ({1}t)",
            "{1}s = Shape ({0})\n{1}n = Slice ({1}s, zero, one)\n"
            "{1}r = Concat <axis=0> ({1}n, minus)\n{1} = Reshape ({0}, {1}r)",
            "{1}s = Shape ({0})\n{1}k = ConstantOfShape ({1}s)\n{1} = Add ({0}, {1}k)",
            "{1} = Slice ({0}, zero, big, one)",
            "{1}d = Exp ({0})\n{1} = Neg ({0})",
        ]
    )


@st.composite
def graphs(draw: st.DrawFn) -> tuple[str, int, int]:
    """A graph's text, its operator set, and what its dynamic axis is bound to."""
    opset = draw(st.integers(min_value=10, max_value=23))
    lines, current = [], "x"
    for index, step in enumerate(draw(st.lists(steps(opset), min_size=1, max_size=8))):
        result = f"v{index}"
        lines.append(step.format(current, result))
        current = result
    body = "\n".join([*lines, f"y = Tanh ({current})"])
    text = f"g (float[n,6] x) => (float[n,6] y) {{\n{body}\n}}"
    return text, opset, draw(st.integers(min_value=1, max_value=4))


@settings(max_examples=40)
@given(graphs())
def test_random_graphs(case: tuple[str, int, int]) -> None:
    text, opset, extent = case
    with tempfile.TemporaryDirectory() as name:
        model = from_text(text, WEIGHTS, opset=opset)
        report, _ = through_stage(model, Path(name), {"n": extent})
    assert report.proof.compared_with == "the original"
    assert report.inputs == {"x": f"f32[{extent},6]"}
    assert report.outputs == {"y": f"f32[{extent},6]"}
    leftovers = {"Shape", "ConstantOfShape", "Dropout", "Cast", "Exp", "Identity"}
    assert not leftovers & set(report.operators_after)
