"""Casts, quantize, dequantize and host calls as ONNX nodes."""

from __future__ import annotations

import numpy as np

from stages.recipe.kinds import Kind
from stages.recipe.onnx_export.emitter import Emitter, Exporter
from stages.recipe.onnx_export.host_node import host_node, words
from stages.recipe.onnx_export.renaming import renamed_node
from stages.tensors import DType

_OPSET_17_QUANTISED = (DType.I8, DType.U8)


def cast(e: Emitter) -> None:
    """cast to the type of the result."""
    e.cast(e.operands[0], e.result.dtype, output=e.target)


def _as(e: Emitter, position: int, dtype: DType) -> str:
    """An operand in another type."""
    value = e.operands[position]
    return value if e.operand_type(position).dtype is dtype else e.cast(value, dtype)


def _along(e: Emitter, value: str) -> str:
    """A scale or zero point shaped to broadcast against the operand."""
    axis, rank = e.operator.integer("axis"), e.operand_type(0).rank
    shape = [1] * rank
    if axis >= 0:
        shape[axis] = -1
    return e.node("Reshape", (value, e.integers(shape if axis >= 0 else ())))


def quantize(e: Emitter) -> None:
    """quantize: QuantizeLinear for 8 bits, spelled out for the integers that opset 17 lacks."""
    target = e.result.dtype
    if target not in _OPSET_17_QUANTISED or e.operand_type(0).dtype is DType.F64:
        _quantize_spelled_out(e)
        return
    operands = [_as(e, 0, DType.F32), _as(e, 1, DType.F32)]
    zero_point = e.operands[2] if e.has(2) else ""
    if not zero_point and target is DType.I8:
        shape = e.shape(1)
        zero_point = e.constant(np.zeros(shape, np.int8))
    axis = e.operator.integer("axis")
    operands += [zero_point] if zero_point else []
    e.finish("QuantizeLinear", _scalars(e, operands), {} if axis < 0 else {"axis": axis})


def _scalars(e: Emitter, operands: list[str]) -> list[str]:
    """Parameters of one element as scalars, which no axis can be read into."""
    if e.operator.integer("axis") >= 0 or e.operand_type(1).rank == 0:
        return operands
    value, *parameters = operands
    return [value, *(e.node("Reshape", (name, e.integers(()))) for name in parameters)]


def _quantize_spelled_out(e: Emitter) -> None:
    limits = np.iinfo(str(e.result.dtype.numpy))
    compute = DType.F64 if limits.bits > 16 or e.operand_type(0).dtype is DType.F64 else DType.F32
    e.compute = compute
    steps = e.node("Round", (e.node("Div", (_as(e, 0, compute), _along(e, _as(e, 1, compute)))),))
    if e.has(2):
        steps = e.node("Add", (steps, _along(e, _as(e, 2, compute))))
    bounded = e.node("Clip", (steps, e.scalar(limits.min), e.scalar(limits.max)))
    e.cast(bounded, e.result.dtype, output=e.target)


def dequantize(e: Emitter) -> None:
    """dequantize: DequantizeLinear, or spelled out where opset 17 lacks the type."""
    source = e.operand_type(0).dtype
    narrow = source in _OPSET_17_QUANTISED or (source is DType.I32 and not e.has(2))
    if not narrow or e.result.dtype is DType.F64:
        _dequantize_spelled_out(e)
        return
    operands = [e.operands[0], _as(e, 1, DType.F32)]
    operands += [e.operands[2]] if e.has(2) else []
    axis = e.operator.integer("axis")
    attributes = {} if axis < 0 else {"axis": axis}
    if e.result.dtype is DType.F32:
        e.finish("DequantizeLinear", _scalars(e, operands), attributes)
        return
    real = e.node("DequantizeLinear", _scalars(e, operands), attributes)
    e.cast(real, e.result.dtype, output=e.target)


def _dequantize_spelled_out(e: Emitter) -> None:
    compute = DType.F64 if e.result.dtype is DType.F64 else DType.F32
    steps = e.cast(e.operands[0], DType.I64)
    if e.has(2):
        steps = e.node("Sub", (steps, _along(e, e.cast(e.operands[2], DType.I64))))
    scale = _along(e, _as(e, 1, compute))
    real = e.cast(steps, compute)
    if compute is e.result.dtype:
        e.finish("Mul", (real, scale))
    else:
        e.cast(e.node("Mul", (real, scale)), e.result.dtype, output=e.target)


def host_call(e: Emitter) -> None:
    """The original node under the recipe's names."""
    names = dict(zip(words(e.operator, "names"), e.operator.inputs, strict=True))
    names |= dict(zip(words(e.operator, "results"), e.operator.outputs, strict=True))
    node = renamed_node(host_node(e.operator), names, e.types)
    node.name = e.operator.name
    e.nodes.append(node)


TABLE: dict[Kind, Exporter] = {
    Kind.CAST: cast,
    Kind.QUANTIZE: quantize,
    Kind.DEQUANTIZE: dequantize,
    Kind.HOST_CALL: host_call,
}
