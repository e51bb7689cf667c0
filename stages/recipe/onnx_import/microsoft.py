"""ONNX Runtime's contrib operators (domain com.microsoft) that our kinds can mean.

Their definitions: docs/ContribOperators.md of ONNX Runtime.
"""

from __future__ import annotations

from functools import partial

from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.activations import scaled_sigmoid
from stages.recipe.onnx_import.contractions import (
    conv_attributes,
    matmul_of,
    scaled,
)
from stages.recipe.onnx_import.elementwise import broadcast_type
from stages.recipe.onnx_import.normalisation import emit_layer_norm
from stages.recipe.onnx_import.pooling import average_attributes
from stages.recipe.onnx_import.quantization import (
    accumulator_bias,
    dequantize,
    float_result,
    quantize,
    real,
    store,
)
from stages.recipe.onnx_import.translation import (
    Attributes,
    NotRepresentable,
    Translation,
    Translator,
    axis_of,
)
from stages.tensors import TensorType


def fused_matmul(t: Translation) -> None:
    """FusedMatMul and TransposeMatMul without batch transposes."""
    a, b = t.operand(0), t.operand(1)
    if t.node.integer("transBatchA", 0) or t.node.integer("transBatchB", 0):
        raise NotRepresentable("it transposes a batch axis")
    if t.node.integer("transA", 0):
        a = t.transposed(a, _last_two_swapped(t.type(a).rank))
    if t.node.integer("transB", 0):
        b = t.transposed(b, _last_two_swapped(t.type(b).rank))
    alpha = t.node.number("alpha", 1.0)
    if t.data(a) is not None and t.data(b) is None:
        a = scaled(t, a, alpha, "alpha")
    else:
        b = scaled(t, b, alpha, "alpha")
    matmul_of(t, a, b)


def _last_two_swapped(rank: int) -> tuple[int, ...]:
    if rank < 2:
        return tuple(range(rank))
    return (*range(rank - 2), rank - 1, rank - 2)


def gelu(approximate: str, t: Translation) -> None:
    """Gelu, BiasGelu and FastGelu: of the operands' sum."""
    x = t.operand(0)
    if t.has(1):
        x = t.step(Kind.ADD, (x, t.operand(1)), t.result)
    t.emit(Kind.GELU, (x,), {"approximate": approximate})


def quick_gelu(t: Translation) -> None:
    """QuickGelu: x * sigmoid(alpha * x)."""
    scaled_sigmoid(t, t.node.number("alpha", 1.702))


def skip_layer_norm(t: Translation) -> None:
    """SkipLayerNormalization: of input + skip + bias, a sum that may be read itself."""
    if t.has_output(1) or t.has_output(2):
        raise NotRepresentable("its mean or deviation is read")
    x, skip = t.operand(0), t.operand(1)
    total = t.step(Kind.ADD, (x, skip), broadcast_type(t, (x, skip)))
    if t.has(4):
        total = t.step(Kind.ADD, (total, t.operand(4)), t.type(total))
    parameters = [t.operand(2)] + ([t.operand(3)] if t.has(3) else [])
    if "epsilon" not in {attribute.name for attribute in t.node.proto.attribute}:
        raise NotRepresentable(
            "its epsilon isn't written"
        )  # its default is another than LayerNormalization's
    emit_layer_norm(t, total, parameters, t.type(total).rank - 1)
    if t.has_output(3):
        t.alias(total, t.node.proto.output[3])


def fused_conv(t: Translation) -> None:
    """FusedConv: a convolution, a value to add, an activation."""
    x, w = t.operand(0), t.operand(1)
    operands = [x, w, t.operand(2)] if t.has(2) else [x, w]
    value = t.step(Kind.CONV, operands, t.result, conv_attributes(t, x, w))
    if t.has(3):
        value = t.step(Kind.ADD, (value, t.operand(3)), t.result)
    _activate(t, value)


def _activate(t: Translation, value: str) -> None:
    name = t.node.word("activation", "")
    parameters = t.node.numbers("activation_params")
    plain = {"Relu": Kind.RELU, "Tanh": Kind.TANH, "Sigmoid": Kind.SIGMOID}
    if not name:
        t.alias(value)
    elif name in plain:
        t.emit(plain[name], (value,))
    elif name == "LeakyRelu" and len(parameters) == 1:
        t.emit(Kind.LEAKY_RELU, (value,), {"alpha": parameters[0]})
    elif name == "Clip" and len(parameters) == 2:
        t.emit(Kind.CLIP, (value,), {"min": parameters[0], "max": parameters[1]})
    elif name == "HardSigmoid" and len(parameters) == 2:
        t.emit(Kind.HARD_SIGMOID, (value,), {"alpha": parameters[0], "beta": parameters[1]})
    else:
        raise NotRepresentable(f"its activation {name} has no kind")


def qlinear_binary(kind: Kind, t: Translation) -> None:
    """QLinearAdd and QLinearMul."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale = t.operands()[:7]
    operands = (real(t, a, a_scale, a_zero), real(t, b, b_scale, b_zero))
    result = t.step(kind, operands, float_result(t, y_scale))
    store(t, result, y_scale, t.operand(7))


def qlinear_unary(kind: Kind, t: Translation) -> None:
    """QLinearSigmoid and QLinearLeakyRelu."""
    x, x_scale, x_zero, y_scale = t.operands()[:4]
    attributes: Attributes = (
        {"alpha": t.node.number("alpha", 0.01)} if kind is Kind.LEAKY_RELU else {}
    )
    value = real(t, x, x_scale, x_zero)
    store(t, t.step(kind, (value,), float_result(t, y_scale), attributes), y_scale, t.operand(4))


def qlinear_global_average_pool(t: Translation) -> None:
    """QLinearGlobalAveragePool."""
    x, x_scale, x_zero, y_scale = t.operands()[:4]
    rank = t.type(x).rank
    last = t.node.integer("channels_last", 0)
    axes = tuple(range(1, rank - 1)) if last else tuple(range(2, rank))
    attributes: Attributes = {"axes": axes, "keepdims": 1}
    value = real(t, x, x_scale, x_zero)
    mean = t.step(Kind.REDUCE_MEAN, (value,), float_result(t, y_scale), attributes)
    store(t, mean, y_scale, t.operand(4))


def qlinear_average_pool(t: Translation) -> None:
    """QLinearAveragePool of channels first."""
    if t.node.integer("channels_last", 0):
        raise NotRepresentable("its channels come last")
    x, x_scale, x_zero, y_scale = t.operands()[:4]
    value = real(t, x, x_scale, x_zero)
    wanted = float_result(t, y_scale)
    mean = t.step(Kind.AVERAGE_POOL, (value,), wanted, average_attributes(t))
    store(t, mean, y_scale, t.operand(4))


def qlinear_concat(t: Translation) -> None:
    """QLinearConcat: result's format, then value, scale and zero point of each part."""
    y_scale, y_zero, *rest = t.operands()
    parts = [
        real(t, rest[start], rest[start + 1], rest[start + 2]) for start in range(0, len(rest), 3)
    ]
    axis = axis_of(t.node.integer("axis", 0), t.result.rank)
    joined = parts[0]
    if len(parts) > 1:
        joined = t.step(Kind.CONCAT, parts, float_result(t, y_scale), {"axis": axis})
    store(t, joined, y_scale, y_zero)


def matmul_integer_to_float(t: Translation) -> None:
    """MatMulIntegerToFloat: a, b, their scales, their zero points, a float bias."""
    a, b, a_scale, b_scale = t.operands()[:4]
    left = real(t, a, a_scale, t.operand(4))
    right = real(t, b, b_scale, t.operand(5), t.type(b).rank - 1)
    if not t.has(6):
        matmul_of(t, left, right)
        return
    t.emit(Kind.MATMUL, (left, right, t.operand(6)))


def qgemm(t: Translation) -> None:
    """QGemm: a float result where it has no output format."""
    a, a_scale, a_zero, b, b_scale, b_zero = t.operands()[:6]
    alpha = t.node.number("alpha", 1.0)
    transposed_b = t.node.integer("transB", 0)
    left = real(t, a, a_scale, a_zero)
    right = real(t, b, b_scale, b_zero, 0 if transposed_b else 1)
    if t.node.integer("transA", 0):
        left = t.transposed(left, (1, 0))
    if transposed_b:
        right = t.transposed(right, (1, 0))
    if alpha != 1.0:
        left = scaled(t, left, alpha, "alpha")
    operands = [left, right]
    if t.has(6):
        operands.append(accumulator_bias(t, t.operand(6), a_scale, b_scale, alpha))
    if not t.has(7):
        t.emit(Kind.MATMUL, operands)
        return
    wanted = TensorType(t.type(left).dtype, t.result.shape)
    store(t, t.step(Kind.MATMUL, operands, wanted), t.operand(7), t.operand(8))


TABLE: dict[str, Translator] = {
    "FusedMatMul": fused_matmul,
    "TransposeMatMul": fused_matmul,
    "Gelu": partial(gelu, "none"),
    "BiasGelu": partial(gelu, "none"),
    "FastGelu": partial(gelu, "tanh"),
    "QuickGelu": quick_gelu,
    "SkipLayerNormalization": skip_layer_norm,
    "FusedConv": fused_conv,
    "QLinearAdd": partial(qlinear_binary, Kind.ADD),
    "QLinearMul": partial(qlinear_binary, Kind.MUL),
    "QLinearSigmoid": partial(qlinear_unary, Kind.SIGMOID),
    "QLinearLeakyRelu": partial(qlinear_unary, Kind.LEAKY_RELU),
    "QLinearGlobalAveragePool": qlinear_global_average_pool,
    "QLinearAveragePool": qlinear_average_pool,
    "QLinearConcat": qlinear_concat,
    "QGemm": qgemm,
    "MatMulIntegerToFloat": matmul_integer_to_float,
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
}
