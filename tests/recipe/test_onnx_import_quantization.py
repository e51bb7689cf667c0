"""Quantised operators become dequantize, an operator, quantize; weights stay small constants."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from stages.recipe.onnx_import import import_model
from stages.tensors import DType
from tests.recipe.onnx_models import check, host_types, kinds, parse

RANDOM = np.random.default_rng(5)


def model_of(op_type, inputs, result, constants, attributes=None, domain="", opset=17):
    """One node: `inputs` maps names to (type code, shape), `constants` names to arrays."""
    names = [*inputs, *constants]
    order = sorted(names, key=lambda name: int(name[1:]))
    node = helper.make_node(op_type, order, ["y"], domain=domain, **(attributes or {}))
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, *given) for name, given in inputs.items()],
        [helper.make_tensor_value_info("y", *result)],
        [numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8 if opset < 19 else 10)


def bytes_of(shape, dtype=np.uint8):
    """Random integers over the whole range of an 8-bit type."""
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype)


SCALE, ZERO = np.float32(0.02), np.uint8(120)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_quantize_and_dequantize(dtype, axis):
    count = {None: 0, 0: 2, 1: 3, -1: 4}[axis]
    scale = np.abs(RANDOM.standard_normal(count, np.float32)) * 0.02 + 0.01 if count else SCALE
    zero = RANDOM.integers(0, 9, count).astype(dtype) if count else np.dtype(dtype).type(3)
    attributes = {} if axis is None else {"axis": axis}
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    quantize = model_of(
        "QuantizeLinear",
        {"i0": (TensorProto.FLOAT, [2, 3, 4])},
        (code, [2, 3, 4]),
        {"i1": scale, "i2": zero},
        attributes,
    )
    graph = check(quantize, steps=1)
    assert kinds(graph) == ["quantize"]
    assert graph.operators[0].attributes["axis"] == (-1 if axis is None else axis % 3)
    dequantize = model_of(
        "DequantizeLinear",
        {"i0": (code, [2, 3, 4])},
        (TensorProto.FLOAT, [2, 3, 4]),
        {"i1": scale, "i2": zero},
        attributes,
    )
    feeds = {"i0": bytes_of((2, 3, 4), np.dtype(dtype))}
    assert kinds(check(dequantize, feeds)) == ["dequantize"]


def test_scale_of_one_element_means_per_tensor():
    model = model_of(
        "DequantizeLinear",
        {"i0": (TensorProto.UINT8, [1, 3])},
        (TensorProto.FLOAT, [1, 3]),
        {"i1": np.array([0.5], np.float32), "i2": np.array([3], np.uint8)},
        {"axis": 0},
    )
    graph = check(model, {"i0": bytes_of((1, 3))})
    assert graph.operators[0].attributes["axis"] == -1
    assert graph.types[graph.operators[0].inputs[1]].shape == ()


def test_weights_of_8_bits_are_not_folded_and_gemm_transposes_below_dequantize():
    text = (
        "g (float[2,3] x) => (float[2,4] y) "
        "<int8[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float[4] s = {0.1, 0.2, 0.3, 0.4}, "
        "int8[4] z = {0,0,0,0}> "
        "{ r = DequantizeLinear<axis=0>(w, s, z) y = Gemm<transB=1>(x, r) }"
    )
    graph = check(parse(text))
    assert kinds(graph) == ["dequantize", "matmul"]
    dequantize = graph.operators[0]
    assert dequantize.attributes["axis"] == 1
    assert graph.types[dequantize.inputs[0]].dtype is DType.I8
    assert graph.types[dequantize.inputs[0]].shape == (3, 4)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("group", [1, 2])
def test_qlinear_conv(per_channel, bias, group):
    count = 6 if per_channel else 0
    w_scale = np.linspace(0.01, 0.02, count, dtype=np.float32) if count else np.float32(0.01)
    constants = {
        "i1": SCALE,
        "i2": ZERO,
        "i3": bytes_of((6, 4 // group, 3, 3), np.int8),
        "i4": w_scale,
        "i5": np.zeros(count, np.int8) if count else np.int8(0),
        "i6": np.float32(0.1),
        "i7": np.uint8(128),
    }
    if bias:
        constants["i8"] = RANDOM.integers(-900, 900, 6).astype(np.int32)
    model = model_of(
        "QLinearConv",
        {"i0": (TensorProto.UINT8, [1, 4, 7, 7])},
        (TensorProto.UINT8, [1, 6, 4, 4]),
        constants,
        {"pads": [1, 1, 1, 1], "strides": [2, 2], "group": group},
    )
    graph = check(model, {"i0": bytes_of((1, 4, 7, 7))}, steps=1)
    assert kinds(graph)[-2:] == ["conv", "quantize"]
    assert set(kinds(graph)[:-2]) == {"dequantize"}


@pytest.mark.parametrize("per_column", [False, True])
def test_qlinear_matmul(per_column):
    b_scale = np.linspace(0.01, 0.03, 5, dtype=np.float32) if per_column else np.float32(0.01)
    b_zero = np.full(5, 3, np.int8) if per_column else np.int8(3)
    constants = {
        "i1": SCALE,
        "i2": ZERO,
        "i3": bytes_of((6, 5), np.int8),
        "i4": b_scale,
        "i5": b_zero,
        "i6": np.float32(0.1),
        "i7": np.uint8(128),
    }
    model = model_of(
        "QLinearMatMul",
        {"i0": (TensorProto.UINT8, [2, 3, 6])},
        (TensorProto.UINT8, [2, 3, 5]),
        constants,
    )
    graph = check(model, {"i0": bytes_of((2, 3, 6))}, steps=1)
    assert kinds(graph) == ["dequantize", "dequantize", "matmul", "quantize"]


@pytest.mark.parametrize("name", ["QLinearAdd", "QLinearMul"])
def test_qlinear_binary(name):
    constants = {"i1": SCALE, "i2": ZERO, "i4": np.float32(0.03), "i5": ZERO}
    constants |= {"i6": np.float32(0.05), "i7": np.uint8(100)}
    code = TensorProto.UINT8
    model = model_of(
        name,
        {"i0": (code, [2, 4]), "i3": (code, [4])},
        (code, [2, 4]),
        constants,
        domain="com.microsoft",
    )
    feeds = {"i0": bytes_of((2, 4)), "i3": bytes_of(4)}
    graph = check(model, feeds, steps=1)
    assert not host_types(graph)


@pytest.mark.parametrize(
    ("name", "shape", "attributes"),
    [
        ("QLinearSigmoid", [1, 2, 3, 3], {}),
        ("QLinearLeakyRelu", [1, 2, 3, 3], {"alpha": 0.2}),
        ("QLinearGlobalAveragePool", [1, 2, 1, 1], {}),
    ],
)
def test_qlinear_unary(name, shape, attributes):
    constants = {"i1": SCALE, "i2": ZERO, "i3": np.float32(0.01), "i4": np.uint8(90)}
    code = TensorProto.UINT8
    model = model_of(
        name, {"i0": (code, [1, 2, 3, 3])}, (code, shape), constants, attributes, "com.microsoft"
    )
    graph = check(model, {"i0": bytes_of((1, 2, 3, 3))}, steps=1)
    assert kinds(graph)[0] == "dequantize"
    assert kinds(graph)[-1] == "quantize"


def test_qlinear_average_pool():
    constants = {"i1": SCALE, "i2": ZERO, "i3": np.float32(0.015), "i4": np.uint8(90)}
    code = TensorProto.UINT8
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 0, 0]}
    model = model_of(
        "QLinearAveragePool",
        {"i0": (code, [1, 2, 5, 5])},
        (code, [1, 2, 3, 3]),
        constants,
        attributes,
        "com.microsoft",
    )
    graph = check(model, {"i0": bytes_of((1, 2, 5, 5))}, steps=1)
    assert kinds(graph) == ["dequantize", "average_pool", "quantize"]


def test_qlinear_concat():
    constants = {"i0": np.float32(0.05), "i1": ZERO, "i3": SCALE, "i4": ZERO}
    constants |= {"i6": np.float32(0.04), "i7": np.uint8(9)}
    code = TensorProto.UINT8
    model = model_of(
        "QLinearConcat",
        {"i2": (code, [2, 3]), "i5": (code, [2, 2])},
        (code, [2, 5]),
        constants,
        {"axis": 1},
        "com.microsoft",
    )
    graph = check(model, {"i2": bytes_of((2, 3)), "i5": bytes_of((2, 2))}, steps=1)
    assert kinds(graph) == ["dequantize", "dequantize", "concat", "quantize"]


@pytest.mark.parametrize("quantised_result", [False, True])
@pytest.mark.parametrize("transposed", [0, 1])
def test_qgemm(quantised_result, transposed):
    constants = {
        "i1": SCALE,
        "i2": ZERO,
        "i3": bytes_of((5, 6) if transposed else (6, 5), np.int8),
        "i4": np.linspace(0.01, 0.03, 5, dtype=np.float32),
        "i5": np.zeros(5, np.int8),
        "i6": RANDOM.integers(-900, 900, 5).astype(np.int32),
    }
    result = (TensorProto.FLOAT, [3, 5])
    if quantised_result:
        constants |= {"i7": np.float32(0.1), "i8": np.uint8(128)}
        result = (TensorProto.UINT8, [3, 5])
    model = model_of(
        "QGemm",
        {"i0": (TensorProto.UINT8, [3, 6])},
        result,
        constants,
        {"transB": transposed, "alpha": 1.0},
        "com.microsoft",
    )
    graph = check(model, {"i0": bytes_of((3, 6))}, steps=1)
    assert "matmul" in kinds(graph)


def test_block_quantised_weights_of_4_bits_become_floats():
    values = RANDOM.integers(-8, 8, (8, 4))
    weights = helper.make_tensor("w", TensorProto.INT4, [8, 4], values.reshape(-1))
    scales = np.abs(RANDOM.standard_normal((2, 4), np.float32))
    node = helper.make_node("DequantizeLinear", ["w", "s"], ["r"], block_size=4, axis=0)
    product = helper.make_node("MatMul", ["x", "r"], ["y"])
    graph = helper.make_graph(
        [node, product],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [weights, numpy_helper.from_array(scales, "s")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert kinds(check(model)) == ["matmul"]
    _, constants = import_model(model)
    expected = values * np.repeat(scales, 4, axis=0)
    np.testing.assert_allclose(constants["r"], expected, rtol=1e-6)


WEIGHTS = "{1,-2,3,4,-5,6,7,8,-9,10,11,12,-13,14,15,16,17,-18}"


@pytest.mark.parametrize(
    ("scale", "zero"),
    [
        ("float ws = {0.02}", "int8 z = {1}"),
        ("float[3] ws = {0.02, 0.01, 0.03}", "int8[3] z = {1, 0, 2}"),
        ("float[3] ws = {0.02, 0.01, 0.03}", "int8 z = {0}"),
    ],
)
def test_dynamic_quantisation_is_a_matmul_of_dequantised_values(scale, zero):
    text = (
        f"g (float[2,6] x) => (float[2,3] y) <int8[6,3] w = {WEIGHTS}, {zero}, {scale}> "
        "{ q, s, p = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, p, z) f = Cast<to=1>(i) "
        "t = Mul(s, ws) y = Mul(f, t) }"
    )
    graph = check(parse(text))
    assert kinds(graph) == ["host_call", "dequantize", "dequantize", "matmul"]


def test_an_integer_product_whose_sums_are_read_stays():
    text = (
        f"g (float[2,6] x) => (float[2,3] y, int32[2,3] i) <int8[6,3] w = {WEIGHTS}, "
        "int8 z = {1}, float ws = {0.02}> "
        "{ q, s, p = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, p, z) f = Cast<to=1>(i) "
        "t = Mul(s, ws) y = Mul(f, t) }"
    )
    assert host_types(check(parse(text))) == ["DynamicQuantizeLinear", "MatMulInteger"]


def test_dynamic_convolution():
    text = (
        "g (float[1,2,5,5] x) => (float[1,1,3,3] y) <uint8[1,2,3,3] w = "
        "{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18}, uint8 z = {9}, float ws = {0.02}> "
        "{ q, s, p = DynamicQuantizeLinear(x) i = ConvInteger(q, w, p, z) f = Cast<to=1>(i) "
        "t = Mul(s, ws) y = Mul(t, f) }"
    )
    assert kinds(check(parse(text))) == ["host_call", "dequantize", "dequantize", "conv"]


def test_matmul_integer_to_float():
    constants = {
        "i1": bytes_of((6, 5), np.int8),
        "i2": SCALE,
        "i3": np.linspace(0.01, 0.03, 5, dtype=np.float32),
        "i4": ZERO,
        "i5": np.zeros(5, np.int8),
        "i6": np.linspace(-1, 1, 5, dtype=np.float32),
    }
    model = model_of(
        "MatMulIntegerToFloat",
        {"i0": (TensorProto.UINT8, [2, 3, 6])},
        (TensorProto.FLOAT, [2, 3, 5]),
        constants,
        domain="com.microsoft",
    )
    graph = check(model, {"i0": bytes_of((2, 3, 6))})
    assert kinds(graph) == ["dequantize", "dequantize", "matmul"]
