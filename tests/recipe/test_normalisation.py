"""Normalisation, softmax and reductions compute what ONNX Runtime computes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.operators import flops, infer
from tests.recipe.reference import assert_close, numbers, run_onnx, run_ours, type_of


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (4, 3), (1, 3, 7)])
def test_batch_norm(shape: tuple[int, ...]) -> None:
    channels = shape[1]
    parameters = [numbers((channels,), seed) for seed in (1, 2, 3)]
    variance = np.abs(numbers((channels,), 4)) + np.float32(0.1)
    inputs = [numbers(shape) * 3, *parameters, variance]
    assert_close(
        run_ours(Kind.BATCH_NORM, inputs, {"epsilon": 1e-5})[0],
        run_onnx("BatchNormalization", inputs, {"epsilon": 1e-5})[0],
    )


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("has_bias", [True, False])
def test_layer_norm(axis: int, has_bias: bool) -> None:
    x = numbers((2, 3, 16)) * 5 + 2
    scale, bias = numbers(x.shape[axis:], 1), numbers(x.shape[axis:], 2)
    inputs = [x, scale, bias] if has_bias else [x, scale]
    assert_close(
        run_ours(Kind.LAYER_NORM, inputs, {"axis": axis, "epsilon": 1e-5})[0],
        run_onnx("LayerNormalization", inputs, {"axis": axis, "epsilon": 1e-5})[0],
        2e-5,
    )


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 6)])
def test_instance_norm(shape: tuple[int, ...]) -> None:
    inputs = [numbers(shape) * 2 + 1, numbers((3,), 1), numbers((3,), 2)]
    assert_close(
        run_ours(Kind.INSTANCE_NORM, inputs, {"epsilon": 1e-3})[0],
        run_onnx("InstanceNormalization", inputs, {"epsilon": 1e-3})[0],
        2e-5,
    )


@pytest.mark.parametrize("kind", [Kind.SOFTMAX, Kind.LOG_SOFTMAX])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softmax(kind: Kind, axis: int, dtype: type) -> None:
    x = (numbers((3, 4, 5)) * 30).astype(dtype)
    x[0, 1, 2] = -np.inf
    op_type = "Softmax" if kind is Kind.SOFTMAX else "LogSoftmax"
    assert_close(run_ours(kind, [x], {"axis": axis})[0], run_onnx(op_type, [x], {"axis": axis})[0])


def test_softmax_of_large_numbers_stays_finite() -> None:
    x = np.array([[1e30, 1e30, -1e30]], np.float32)
    assert run_ours(Kind.SOFTMAX, [x], {"axis": 1})[0].tolist() == [[0.5, 0.5, 0.0]]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_softmax_is_its_numerator_over_the_sum_of_it(axis: int) -> None:
    x = numbers((3, 4, 5)) * 30
    numerator = run_ours(Kind.SOFTMAX_NUMERATOR, [x], {"axis": axis})[0]
    assert (numerator.max(axis=axis) == 1).all()
    softmax = run_onnx("Softmax", [x], {"axis": axis})[0]
    assert_close(numerator / numerator.sum(axis=axis, keepdims=True), softmax)


@pytest.mark.parametrize("kind", [Kind.SOFTMAX, Kind.LOG_SOFTMAX])
def test_a_row_of_minus_infinity(kind: Kind) -> None:
    x = np.full((2, 3), -np.inf, np.float32)
    x[1] = 1
    op_type = "Softmax" if kind is Kind.SOFTMAX else "LogSoftmax"
    assert_close(run_ours(kind, [x], {"axis": 1})[0], run_onnx(op_type, [x], {"axis": 1})[0])


REDUCTIONS = {
    Kind.REDUCE_SUM: "ReduceSum",
    Kind.REDUCE_MEAN: "ReduceMean",
    Kind.REDUCE_MAX: "ReduceMax",
    Kind.REDUCE_MIN: "ReduceMin",
    Kind.REDUCE_PROD: "ReduceProd",
    Kind.REDUCE_L1: "ReduceL1",
    Kind.REDUCE_L2: "ReduceL2",
    Kind.REDUCE_SUM_SQUARE: "ReduceSumSquare",
}


@given(
    st.sampled_from(list(REDUCTIONS)),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.sampled_from([np.float32, np.float32, np.int32, np.float64, np.int64]),
    st.integers(0, 1),
    st.data(),
)
def test_reductions(
    kind: Kind, shape: list[int], dtype: type, keepdims: int, data: st.DataObject
) -> None:
    if kind in (Kind.REDUCE_L1, Kind.REDUCE_L2, Kind.REDUCE_MEAN) and dtype is np.int64:
        dtype = np.int32
    if kind in (Kind.REDUCE_L1, Kind.REDUCE_L2) and dtype is np.float64:
        dtype = np.float32
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))))
    x = numbers(shape, 5, dtype)
    ours = run_ours(kind, [x], {"axes": axes, "keepdims": keepdims})[0]
    indices = np.array(axes, np.int64)
    theirs = run_onnx(REDUCTIONS[kind], [x, indices], {"keepdims": keepdims}, opset=18)[0]
    if kind is Kind.REDUCE_MEAN and dtype is np.int32:
        assert abs(ours - theirs).max() <= 1
        theirs = np.trunc(x.mean(axis=axes, keepdims=bool(keepdims), dtype=float)).astype(dtype)
    assert_close(ours, theirs)


@pytest.mark.parametrize("kind", [Kind.REDUCE_MAX, Kind.REDUCE_MIN])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_extremes_of_bytes(kind: Kind, dtype: type) -> None:
    x = numbers((4, 5), dtype=dtype)
    ours = run_ours(kind, [x], {"axes": (1,), "keepdims": 0})[0]
    indices = np.array([1], np.int64)
    assert_close(ours, run_onnx(REDUCTIONS[kind], [x, indices], {"keepdims": 0}, opset=18)[0])


def test_reductions_of_nothing() -> None:
    x = numbers((0, 3))
    over: dict[Kind, float] = {
        Kind.REDUCE_SUM: 0,
        Kind.REDUCE_PROD: 1,
        Kind.REDUCE_MAX: -np.inf,
        Kind.REDUCE_MIN: np.inf,
    }
    for kind, value in over.items():
        assert run_ours(kind, [x], {"axes": (0,), "keepdims": 0})[0].tolist() == [value] * 3


def test_no_axes_reduce_nothing() -> None:
    x = numbers((2, 3))
    assert_close(run_ours(Kind.REDUCE_MEAN, [x], {"axes": (), "keepdims": 1})[0], x)


def test_work_counts_what_is_read() -> None:
    reduce = Operator("r", Kind.REDUCE_L1, ("x",), ("y",), {"axes": (1,), "keepdims": 0})
    operands = [type_of(numbers((4, 10)))]
    assert flops(reduce, operands, infer(reduce, operands)) == 2 * 40
