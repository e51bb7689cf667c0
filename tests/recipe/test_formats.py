"""Casts and quantisation compute what ONNX Runtime computes; integer contractions are exact."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.recipe.semantics import Quantized, evaluate, fits_integers, integer_contraction, rounded
from stages.tensors import DType, TensorType
from tests.recipe.reference import Data, assert_close, numbers, run_onnx, run_ours, type_of

HALVES = np.arange(-20, 21, dtype=np.float32) / 2


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (np.float32, np.int8),
        (np.float32, np.int64),
        (np.float32, np.bool_),
        (np.float64, np.float32),
        (np.float32, np.float64),
        (np.int64, np.float32),
        (np.int64, np.int32),
        (np.int64, np.uint8),
        (np.bool_, np.float32),
        (np.bool_, np.int64),
        (np.uint8, np.float32),
        (np.int32, np.bool_),
    ],
)
def test_cast(source: type, target: type) -> None:
    x = np.concatenate([HALVES, numbers((50,)) * 50]).astype(source)
    declared = TensorType(DType.of(np.dtype(target)), x.shape)
    to = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(target))
    assert_close(
        run_ours(Kind.CAST, [x], declared=[declared])[0], run_onnx("Cast", [x], {"to": to})[0]
    )


def test_a_cast_to_half_rounds_and_overflows_to_infinity() -> None:
    x = np.array([1 / 3, 65519.0, 65520.0, -1e6, 2049.0, 1e-9], np.float32)
    declared = TensorType(DType.F16, x.shape)
    ours = run_ours(Kind.CAST, [x], declared=[declared])[0]
    assert ours.dtype == np.float32
    theirs = run_onnx("Cast", [x], {"to": onnx.TensorProto.FLOAT16})[0]
    np.testing.assert_array_equal(ours, theirs.astype(np.float32))
    assert ours[2] == np.inf


def test_a_cast_to_bfloat16_rounds_to_even() -> None:
    x = numbers((200,))
    declared = TensorType(DType.BF16, x.shape)
    ours = run_ours(Kind.CAST, [x], declared=[declared])[0]
    bits = x.view(np.uint32)
    wanted = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32)
    np.testing.assert_array_equal(ours, wanted.view(np.float32))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("has_zero_point", [True, False])
def test_quantize(dtype: type, axis: int, has_zero_point: bool) -> None:
    x = np.concatenate([HALVES, numbers((43,)) * 40, HALVES * 0.25 + 0.125]).reshape(5, 25)
    count = 1 if axis < 0 else x.shape[axis]
    scale = np.abs(numbers((count,), 1)) + np.float32(0.25)
    scale[0] = 0.5
    point = (numbers((count,), 2, np.int32) % 9).astype(dtype)
    if not has_zero_point:
        dtype, point = np.uint8, np.zeros(count, np.uint8)
    inputs: list[Data | None] = [x, scale, point if has_zero_point else None]
    if axis < 0:
        inputs = [None if d is None or d is x else d.reshape(()) for d in inputs]
        inputs[0] = x
    declared = TensorType(DType.of(np.dtype(dtype)), x.shape)
    ours = run_ours(Kind.QUANTIZE, inputs, {"axis": axis}, declared=[declared])[0]
    theirs = run_onnx("QuantizeLinear", inputs, {"axis": max(axis, 0)})[0]
    assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int16, np.uint16])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_dequantize(dtype: type, axis: int) -> None:
    x = (numbers((5, 25), 3, dtype) * 6).astype(dtype)
    count = 1 if axis < 0 else x.shape[axis]
    scale = np.abs(numbers((count,), 1)) + np.float32(0.01)
    point = (numbers((count,), 2, np.int32) % 9).astype(dtype)
    if dtype is np.int32:
        point[:] = 0
    if axis < 0:
        scale, point = scale.reshape(()), point.reshape(())
    ours = run_ours(Kind.DEQUANTIZE, [x, scale, point], {"axis": axis})[0]
    theirs = run_onnx("DequantizeLinear", [x, scale, point], {"axis": max(axis, 0)}, opset=21)[0]
    assert_close(ours, theirs)


def test_quantize_to_16_bits_saturates() -> None:
    x = np.array([1e9, -1e9, 0.5, 1.5, 40000.0], np.float32)
    inputs = [x, np.array(1, np.float32), np.array(7, np.uint16)]
    ours = run_ours(Kind.QUANTIZE, inputs, {"axis": -1})[0]
    assert ours.tolist() == [65535, 0, 7, 9, 40007]
    assert_close(ours, run_onnx("QuantizeLinear", inputs, opset=21)[0])


@st.composite
def quantized_contractions(
    draw: st.DrawFn,
) -> tuple[Operator, Quantized, Quantized, Data | None]:
    """A convolution or matrix product of bytes, with wide ranges and any zero points."""
    kind = draw(st.sampled_from([Kind.CONV, Kind.MATMUL]))
    seed = draw(st.integers(0, 99))
    generator = np.random.default_rng(seed)
    left, right = draw(st.sampled_from([np.int8, np.uint8])), np.int8
    attributes: dict[str, Attribute] = {}
    if kind is Kind.CONV:
        group = draw(st.sampled_from([1, 2]))
        depth = draw(st.sampled_from([1, 7, 40]))
        shapes = (1, group * depth, 6, 5), (group * 3, depth, 3, 3)
        attributes = {
            "strides": (1, 2),
            "pads": (1, 1, 0, 1),
            "dilations": (1, 1),
            "group": group,
        }
        axis, count = 0, group * 3
    else:
        depth = draw(st.sampled_from([3, 700]))
        shapes = (2, 4, depth), (depth, 5)
        axis, count = 1, 5
    values = [
        generator.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)
        for dtype, shape in zip((left, right), shapes, strict=True)
    ]
    point = np.array(generator.integers(-100, 100) % 128, left)
    x = Quantized(values[0], np.array(0.02, np.float32), point)
    if draw(st.booleans()):
        scales = generator.uniform(0.001, 0.1, count).astype(np.float32)
        weight = Quantized(values[1], scales, np.zeros(count, right), axis)
    else:
        weight = Quantized(values[1], np.array(0.03, np.float32), np.array(3, right))
    bias = generator.standard_normal(count).astype(np.float32) if draw(st.booleans()) else None
    return Operator("q", kind, ("x", "w", "b"), ("y",), attributes), x, weight, bias


@given(quantized_contractions())
def test_integer_contraction_is_exact(
    case: tuple[Operator, Quantized, Quantized, Data | None],
) -> None:
    operator, x, weight, bias = case
    assert fits_integers(operator, x, weight)
    ours = integer_contraction(operator, x, weight, bias)
    assert ours.dtype == np.float32
    wide = [np.asarray(side.centred(), np.float64) for side in (x, weight)]
    result = TensorType(DType.F64, ours.shape)
    sums = evaluate(operator, [*wide, None], [result])[0]
    shape = [1] * sums.ndim
    shape[1 if operator.kind is Kind.CONV else -1] = -1
    scale = (x.scale.astype(np.float64) * weight.scale).reshape(-1)
    wanted = sums * scale.reshape(shape)
    if bias is not None:
        wanted = wanted + bias.reshape(shape)
    np.testing.assert_allclose(ours, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


def test_the_sums_of_a_long_product_are_exact_integers() -> None:
    """4096 products of 255 and 127 pass 2**24 many times over, and differ in the last bit."""
    x = np.full((1, 4096), 255, np.uint8)
    w = np.full((4096, 2), 127, np.int8)
    w[:, 1] = -127
    x[0, 0], w[1, 0] = 254, 126
    operator = Operator("m", Kind.MATMUL, ("a", "b"), ("y",))
    one = np.array(1, np.float32)
    sums = integer_contraction(operator, Quantized(x, one), Quantized(w, one))
    wanted = x.astype(np.int64) @ w.astype(np.int64)
    assert sums.astype(np.float32).tolist() == wanted.astype(np.float32).tolist()


@pytest.mark.parametrize("group", [1, 2])
def test_the_sums_of_a_deep_convolution_are_exact_integers(group: int) -> None:
    generator = np.random.default_rng(0)
    x = generator.integers(200, 256, (1, 300 * group, 4, 4)).astype(np.uint8)
    w = generator.integers(90, 128, (2 * group, 300, 3, 3)).astype(np.int8)
    attributes: dict[str, Attribute] = {
        "strides": (1, 1),
        "pads": (0, 0, 0, 0),
        "dilations": (1, 1),
        "group": group,
    }
    operator = Operator("c", Kind.CONV, ("x", "w"), ("y",), attributes)
    one = np.array(1, np.float32)
    sums = integer_contraction(operator, Quantized(x, one), Quantized(w, one))
    result = TensorType(DType.F64, sums.shape)
    wanted = evaluate(operator, [x.astype(float), w.astype(float)], [result])[0]
    assert wanted.min() > 1 << 24
    np.testing.assert_array_equal(sums, wanted.astype(np.float32))


def test_sums_beyond_32_bits_wrap_as_an_accumulator_does() -> None:
    x = np.full((1, 70000), 255, np.uint8)
    w = np.full((70000, 1), 127, np.int8)
    one = np.array(1, np.float32)
    operator = Operator("m", Kind.MATMUL, ("a", "b"), ("y",))
    total = 70000 * 255 * 127
    assert total > 1 << 31
    sums = integer_contraction(operator, Quantized(x, one), Quantized(w, one))
    assert sums.tolist() == [[float(np.float32(total - (1 << 32)))]]


def test_sixteen_bit_operands_are_exact_too() -> None:
    x, w = numbers((3, 9), dtype=np.int16) * 1500, numbers((9, 2), 1, np.int16) * 800
    one = np.array(1, np.float32)
    operator = Operator("m", Kind.MATMUL, ("a", "b"), ("y",))
    sums = integer_contraction(operator, Quantized(x, one), Quantized(w, one))
    wanted = (x.astype(np.int64) @ w.astype(np.int64)).astype(np.int32).astype(np.float32)
    np.testing.assert_array_equal(sums, wanted)


def test_a_bias_in_the_scale_of_the_sums_is_added_to_them() -> None:
    operator = Operator("m", Kind.MATMUL, ("a", "b", "c"), ("y",))
    x = Quantized(np.array([[10, 20]], np.uint8), np.array(0.5, np.float32), np.array(5, np.uint8))
    w = Quantized(np.array([[1], [2]], np.int8), np.array([0.25], np.float32), None, 1)
    bias = Quantized(np.array([1000], np.int32), np.array(0.125, np.float32))
    assert integer_contraction(operator, x, w, bias).tolist() == [[(5 + 30 + 1000) * 0.125]]
    other = Quantized(np.array([1000], np.int32), np.array(0.5, np.float32))
    assert integer_contraction(operator, x, w, other).tolist() == [[35 * 0.125 + 500]]


def test_what_one_scale_cannot_express_is_refused() -> None:
    conv = Operator("c", Kind.CONV, ("x", "w"), ("y",), {})
    scales = np.ones(3, np.float32)
    x = Quantized(numbers((1, 3, 4, 4), dtype=np.int8), scales, None, 1)
    w = Quantized(numbers((2, 3, 1, 1), dtype=np.int8), scales, None, 1)
    plain = Quantized(x.values, np.float32(1).reshape(()))
    assert not fits_integers(conv, x, w)
    assert not fits_integers(conv, plain, w)
    with pytest.raises(ValueError, match="can't be accumulated"):
        integer_contraction(conv, plain, w)


def test_rounding_to_a_stored_type() -> None:
    x = np.array([1 / 3], np.float32)
    assert rounded(x, TensorType(DType.F16, (1,))).dtype == np.float16
    assert rounded(x, type_of(x)) is x


def test_integer_sums_are_those_of_onnx_runtime() -> None:
    one = np.array(1, np.float32)
    x = (numbers((2, 6, 7, 5), 1, np.int32) * 6 + 128).astype(np.uint8)
    w = (numbers((4, 3, 3, 2), 2, np.int32) * 6).astype(np.int8)
    point = np.array(119, np.uint8)
    attributes: dict[str, Attribute] = {
        "strides": (2, 1),
        "pads": (1, 0, 1, 1),
        "dilations": (1, 2),
        "group": 2,
    }
    conv = Operator("c", Kind.CONV, ("x", "w"), ("y",), attributes)
    ours = integer_contraction(conv, Quantized(x, one, point), Quantized(w, one))
    theirs = run_onnx("ConvInteger", [x, w, point], attributes)[0]
    np.testing.assert_array_equal(ours, theirs.astype(np.float32))
    a, b = x.reshape(2, 42, 5), w.reshape(-1)[:20].reshape(5, 4)
    product = Operator("m", Kind.MATMUL, ("a", "b"), ("y",))
    ours = integer_contraction(product, Quantized(a, one, point), Quantized(b, one))
    theirs = run_onnx("MatMulInteger", [a, b, point])[0]
    np.testing.assert_array_equal(ours, theirs.astype(np.float32))
