"""Convolutions and matrix products compute what ONNX Runtime computes, whole and in tiles."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.recipe.operators import flops, infer, macs
from stages.recipe.semantics import contraction
from stages.recipe.window import Window
from tests.recipe.reference import Data, assert_close, numbers, run_onnx, run_ours, type_of


@dataclass(frozen=True, slots=True)
class Case:
    """A convolution: its operands and attributes."""

    inputs: tuple[Data, ...]
    attributes: dict[str, Attribute]

    @property
    def axes(self) -> int:
        """Spatial axes."""
        return self.inputs[0].ndim - 2


@st.composite
def convolutions(draw: st.DrawFn, *, transposed: bool = False) -> Case:
    """Any convolution whose window fits."""
    axes = draw(st.integers(1, 3))
    group = draw(st.sampled_from([1, 1, 2, 3]))
    inner, outer = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(axes))
    strides = tuple(draw(st.integers(1, 3)) for _ in range(axes))
    dilations = tuple(draw(st.integers(1, 2)) for _ in range(axes))
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    extents = tuple(draw(st.integers(1, 4)) + span for span in spans)
    most = 1 if transposed else 2
    pads = tuple(draw(st.integers(0, min(most, span - 1))) for span in spans * 2)
    attributes: dict[str, Attribute] = {
        "strides": strides,
        "pads": pads,
        "dilations": dilations,
        "group": group,
    }
    channels = group * inner
    shape = (group * outer, inner, *kernel)
    if transposed:
        shape = (channels, outer, *kernel)
        attributes["output_padding"] = tuple(draw(st.integers(0, stride - 1)) for stride in strides)
    batch = draw(st.integers(1, 2))
    inputs = (numbers((batch, channels, *extents)), numbers(shape, 1))
    if draw(st.booleans()):
        inputs = (*inputs, numbers((group * outer,), 2))
    return Case(inputs, attributes)


@given(convolutions())
def test_conv(case: Case) -> None:
    theirs = run_onnx("Conv", case.inputs, case.attributes)[0]
    assert_close(run_ours(Kind.CONV, case.inputs, case.attributes)[0], theirs)


@given(convolutions(transposed=True))
def test_conv_transpose(case: Case) -> None:
    theirs = run_onnx("ConvTranspose", case.inputs, case.attributes)[0]
    assert_close(run_ours(Kind.CONV_TRANSPOSE, case.inputs, case.attributes)[0], theirs)


@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [3000, 30000])
def test_depthwise_in_channel_blocks(
    multiplier: int, stride: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contraction, "_COLUMN_BYTES", size)
    x, w = numbers((2, 7, 13, 11)), numbers((7 * multiplier, 1, 3, 3), 1)
    attributes: dict[str, Attribute] = {
        "strides": (stride, stride),
        "pads": (1, 1, 1, 1),
        "dilations": (1, 1),
        "group": 7,
    }
    assert_close(
        run_ours(Kind.CONV, [x, w], attributes)[0], run_onnx("Conv", [x, w], attributes)[0]
    )


def test_columns_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = numbers((2, 4, 17, 9)), numbers((6, 2, 3, 3), 1)
    attributes: dict[str, Attribute] = {
        "strides": (1, 2),
        "pads": (1, 0, 1, 1),
        "dilations": (1, 1),
        "group": 2,
    }
    whole = run_ours(Kind.CONV, [x, w], attributes)[0]
    monkeypatch.setattr(contraction, "_COLUMN_BYTES", 4000)
    assert_close(run_ours(Kind.CONV, [x, w], attributes)[0], whole, 1e-6)


def tile_span(draw: st.DrawFn, extent: int) -> tuple[int, int]:
    """A part of an axis that isn't empty."""
    start = draw(st.integers(0, extent - 1))
    return start, draw(st.integers(start + 1, extent))


@given(convolutions(), st.data())
def test_a_tile_of_conv_is_part_of_the_whole(case: Case, data: st.DataObject) -> None:
    x, w, *bias = case.inputs
    whole = run_ours(Kind.CONV, case.inputs, case.attributes)[0]
    window = Window.of(Operator("", Kind.CONV, (), (), case.attributes), w.shape[2:])
    begins, ends, rows = [], [], []
    read: list[slice] = [slice(None), slice(None)]
    for axis in range(case.axes):
        start, stop = tile_span(data.draw, whole.shape[axis + 2])
        low = start * window.strides[axis] - window.begins[axis]
        high = (stop - 1) * window.strides[axis] - window.begins[axis] + window.spans[axis]
        extent = x.shape[axis + 2]
        first, last = min(max(low, 0), extent), max(min(high, extent), 0)
        begins.append(first - low)
        ends.append(high - max(last, first))
        read.append(slice(first, max(last, first)))
        rows.append(slice(start, stop))
    attributes = case.attributes | {"pads": (*begins, *ends)}
    part = run_ours(Kind.CONV, [x[tuple(read)], w, *bias], attributes)[0]
    assert_close(part, whole[(slice(None), slice(None), *rows)])


@given(convolutions(transposed=True), st.data())
def test_a_tile_of_conv_transpose_is_part_of_the_whole(case: Case, data: st.DataObject) -> None:
    """The tile reads the operand elements that reach it; its pads, of either sign, place it."""
    x, w, *bias = case.inputs
    whole = run_ours(Kind.CONV_TRANSPOSE, case.inputs, case.attributes)[0]
    operator = Operator("", Kind.CONV_TRANSPOSE, (), (), case.attributes)
    window = Window.of(operator, w.shape[2:])
    begins, ends, rows = [], [], []
    read: list[slice] = [slice(None), slice(None)]
    for axis in range(case.axes):
        start, stop = tile_span(data.draw, whole.shape[axis + 2])
        stride, span = window.strides[axis], window.spans[axis]
        shift = window.begins[axis]
        extent = x.shape[axis + 2]
        first = min(max(-(-(start + shift - span + 1) // stride), 0), extent - 1)
        last = min(max((stop - 1 + shift) // stride + 1, first + 1), extent)
        begin = start + shift - first * stride
        begins.append(begin)
        ends.append((last - first - 1) * stride + span - begin - (stop - start))
        read.append(slice(first, last))
        rows.append(slice(start, stop))
    attributes = case.attributes | {
        "pads": (*begins, *ends),
        "output_padding": (0,) * case.axes,
    }
    part = run_ours(Kind.CONV_TRANSPOSE, [x[tuple(read)], w, *bias], attributes)[0]
    assert_close(part, whole[(slice(None), slice(None), *rows)])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((4,), (4, 5)),
        ((2, 3, 4), (4,)),
        ((4,), (4,)),
        ((0, 4), (4, 5)),
        ((2, 0), (0, 3)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_matmul(left: tuple[int, ...], right: tuple[int, ...], dtype: type) -> None:
    a, b = numbers(left, 1, dtype), numbers(right, 2, dtype)
    assert_close(run_ours(Kind.MATMUL, [a, b])[0], run_onnx("MatMul", [a, b])[0])


def test_matmul_of_transposed_views() -> None:
    a, b = numbers((4, 3, 2)).transpose(2, 1, 0), numbers((5, 4), 1).T
    assert_close(run_ours(Kind.MATMUL, [a, b])[0], np.einsum("bmk,kn->bmn", a, b))


@pytest.mark.parametrize("bias", [(5,), (3, 1), (1, 5), ()])
def test_matmul_adds_a_bias(bias: tuple[int, ...]) -> None:
    a, b, c = numbers((3, 4)), numbers((4, 5), 1), numbers(bias, 2)
    assert_close(run_ours(Kind.MATMUL, [a, b, c])[0], run_onnx("Gemm", [a, b, c])[0])


def test_the_operands_stay_as_they_were() -> None:
    x, w, bias = numbers((1, 2, 3, 3)), numbers((2, 2, 1, 1), 1), numbers((2,), 2)
    before = [x.copy(), w.copy(), bias.copy()]
    attributes: dict[str, Attribute] = {
        "strides": (1, 1),
        "pads": (0, 0, 0, 0),
        "dilations": (1, 1),
        "group": 1,
    }
    run_ours(Kind.CONV, [x, w, bias], attributes)
    for data, copy in zip((x, w, bias), before, strict=True):
        np.testing.assert_array_equal(data, copy)


def test_work_of_contractions() -> None:
    attributes: dict[str, Attribute] = {
        "strides": (2, 2),
        "pads": (1, 1, 1, 1),
        "dilations": (1, 1),
        "group": 2,
    }
    conv = Operator("c", Kind.CONV, ("x", "w", "b"), ("y",), attributes)
    operands = [type_of(numbers(shape)) for shape in ((1, 4, 8, 8), (6, 2, 3, 3), (6,))]
    results = infer(conv, operands)
    assert results[0].shape == (1, 6, 4, 4)
    assert macs(conv, operands, results) == 6 * 16 * 2 * 9
    assert flops(conv, operands, results) == 2 * 6 * 16 * 2 * 9 + 6 * 16
    spread = Operator(
        "t", Kind.CONV_TRANSPOSE, ("x", "w"), ("y",), attributes | {"output_padding": (0, 0)}
    )
    operands = [type_of(numbers(shape)) for shape in ((1, 4, 8, 8), (4, 3, 3, 3))]
    assert macs(spread, operands, infer(spread, operands)) == 4 * 64 * 3 * 9
    product = Operator("m", Kind.MATMUL, ("a", "b"), ("y",))
    operands = [type_of(numbers(shape)) for shape in ((2, 3, 4), (4, 5))]
    assert macs(product, operands, infer(product, operands)) == 2 * 3 * 4 * 5
