"""Quantised operators: quantize and dequantize around the float ones."""

from __future__ import annotations

import numpy as np

from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.contractions import conv_attributes, matmul_of
from stages.recipe.onnx_import.translation import (
    NotRepresentable,
    Translation,
    Translator,
    axis_of,
)
from stages.tensors import DType, TensorType

_QUANTISED = frozenset({DType.I8, DType.U8, DType.I16, DType.U16, DType.I32})


def quantize(t: Translation) -> None:
    """QuantizeLinear, per tensor or per axis."""
    if t.node.integer("block_size", 0):
        raise NotRepresentable("its scales are per block")
    x = t.operand(0)
    scale, zero_point, axis = number_format(t, x, t.operand(1), t.operand(2), _axis(t, x))
    t.emit(Kind.QUANTIZE, trimmed(x, scale, zero_point), {"axis": axis})


def dequantize(t: Translation) -> None:
    """DequantizeLinear, per tensor or per axis."""
    x = t.operand(0)
    if t.node.integer("block_size", 0) or t.type(x).dtype not in _QUANTISED:
        raise NotRepresentable(
            "its scales are per block, or its operand is no integer of 8, 16 or 32 bits"
        )
    scale, zero_point, axis = number_format(t, x, t.operand(1), t.operand(2), _axis(t, x))
    t.emit(Kind.DEQUANTIZE, trimmed(x, scale, zero_point), {"axis": axis})


def _axis(t: Translation, x: str) -> int:
    return axis_of(t.node.integer("axis", 1), t.type(x).rank)


def trimmed(x: str, scale: str, zero_point: str) -> tuple[str, ...]:
    """Operands of quantize and dequantize, an omitted zero point cut off."""
    return (x, scale, zero_point) if zero_point else (x, scale)


def number_format(
    t: Translation, x: str, scale: str, zero_point: str, axis: int
) -> tuple[str, str, int]:
    """Scale and zero point as scalars with axis -1, or as vectors along `axis`.

    Raises:
        NotRepresentable: the scale has other extents than the axis.
    """
    count = t.type(scale).element_count
    if t.type(scale).rank <= 1 and count == 1:
        scalar_zero = t.reshaped(zero_point, ()) if zero_point else ""
        return t.reshaped(scale, ()), scalar_zero, -1
    if t.type(scale).rank != 1 or not 0 <= axis < t.type(x).rank or count != t.shape(x)[axis]:
        raise NotRepresentable(f"its scale {t.type(scale)} fits no axis of {t.type(x)}")
    return scale, zero_point, axis


def real(t: Translation, x: str, scale: str, zero_point: str, axis: int = -1) -> str:
    """The real numbers that a quantised value stands for."""
    scale, zero_point, axis = number_format(t, x, scale, zero_point, axis)
    meant = TensorType(t.type(scale).dtype, t.shape(x))
    return t.step(Kind.DEQUANTIZE, trimmed(x, scale, zero_point), meant, {"axis": axis})


def store(t: Translation, value: str, scale: str, zero_point: str) -> None:
    """Quantise a value into the node's first output."""
    scale, zero_point, axis = number_format(t, value, scale, zero_point, -1)
    t.emit(Kind.QUANTIZE, trimmed(value, scale, zero_point), {"axis": axis})


def float_result(t: Translation, scale: str) -> TensorType:
    """The type of the node's result before it is quantised."""
    return TensorType(t.type(scale).dtype, t.result.shape)


def accumulator_bias(t: Translation, bias: str, x_scale: str, w_scale: str, factor: float) -> str:
    """An int32 bias of an accumulator, as real numbers: its scale is the operands' product."""
    first, second = t.data(x_scale), t.data(w_scale)
    if first is None or second is None or first.size != 1:
        raise NotRepresentable("its scales are computed")
    product = np.asarray(first, np.float32).reshape(()) * np.asarray(second, np.float32) * factor
    scale = t.constant("bias.scale", np.asarray(product, np.float32).reshape(second.shape))
    return real(t, bias, scale, "", t.type(bias).rank - 1)


def qlinear_conv(t: Translation) -> None:
    """QLinearConv."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = t.operands()[:8]
    operands = [real(t, x, x_scale, x_zero), real(t, w, w_scale, w_zero, 0)]
    if t.has(8):
        operands.append(accumulator_bias(t, t.operand(8), x_scale, w_scale, 1.0))
    attributes = conv_attributes(t, x, w)
    result = t.step(Kind.CONV, operands, float_result(t, y_scale), attributes)
    store(t, result, y_scale, y_zero)


def qlinear_matmul(t: Translation) -> None:
    """QLinearMatMul; a vector of scales runs along a's rows or b's columns."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = t.operands()
    left = real(t, a, a_scale, a_zero, t.type(a).rank - 2)
    right = real(t, b, b_scale, b_zero, t.type(b).rank - 1)
    product = t.builder.fresh_value(f"{t.output}.matmul", float_result(t, y_scale))
    matmul_of(t, left, right, product)
    store(t, product, y_scale, y_zero)


TABLE: dict[str, Translator] = {
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
}
