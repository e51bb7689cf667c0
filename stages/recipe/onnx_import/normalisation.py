"""Normalisations."""

from __future__ import annotations

import numpy as np

from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.contractions import present
from stages.recipe.onnx_import.translation import (
    Attributes,
    NotRepresentable,
    Translation,
    Translator,
    axis_of,
)
from stages.tensors import DType, TensorType


def batch_norm(t: Translation) -> None:
    """BatchNormalization in inference."""
    if t.node.integer("training_mode", 0) or t.has_output(1):
        raise NotRepresentable("it trains")
    t.emit(Kind.BATCH_NORM, t.operands()[:5], {"epsilon": t.node.number("epsilon", 1e-5)})


def layer_norm(t: Translation) -> None:
    """LayerNormalization; its mean and deviation are computed beside it where they are read."""
    x, scale, *rest = present(t)
    axis = axis_of(t.node.integer("axis", -1), t.type(x).rank)
    if t.has_output(1) or t.has_output(2):
        emit_moments(t, x, axis)
    emit_layer_norm(t, x, [scale, *rest], axis)


def emit_moments(t: Translation, x: str, axis: int) -> None:
    """Emit outputs 1 and 2 of a layer normalisation: mean, and 1 / standard deviation."""
    source = t.type(x)
    mean, inverse = (t.node.proto.output[i] if t.has_output(i) else "" for i in (1, 2))
    stated = t.type(mean or inverse)
    if stated.dtype is not source.dtype or source.dtype is not DType.F32:
        raise NotRepresentable(f"its moments are {stated}")
    axes = tuple(range(axis, source.rank))
    kept = TensorType(source.dtype, (*source.shape[:axis], *([1] * len(axes))))
    attributes: Attributes = {"axes": axes, "keepdims": 1}
    if mean:
        t.emit(Kind.REDUCE_MEAN, (x,), attributes, output=mean)
    else:
        mean = t.step(Kind.REDUCE_MEAN, (x,), kept, attributes)
    if not inverse:
        return
    centred = t.step(Kind.SUB, (x, mean), source)
    squares = t.step(Kind.MUL, (centred, centred), source)
    variance = t.step(Kind.REDUCE_MEAN, (squares,), kept, attributes)
    epsilon = t.scalar("epsilon", t.node.number("epsilon", 1e-5), source.dtype)
    root = t.step(Kind.SQRT, (t.step(Kind.ADD, (variance, epsilon), kept),), kept)
    t.emit(Kind.RECIPROCAL, (root,), output=inverse)


def bools_like(tensor_type: TensorType) -> TensorType:
    """A type of the same shape that holds truth values."""
    return TensorType(DType.BOOL, tensor_type.shape)


def emit_layer_norm(
    t: Translation, x: str, parameters: list[str], axis: int, output: str = ""
) -> None:
    """Emit `layer_norm`, its scale and bias brought to the shape of the normalised axes."""
    shape = t.shape(x)[axis:]
    fitted = [_fitted(t, parameter, shape) for parameter in parameters]
    attributes = {"axis": axis, "epsilon": t.node.number("epsilon", 1e-5)}
    t.emit(Kind.LAYER_NORM, [x, *fitted], attributes, output=output)


def _fitted(t: Translation, parameter: str, shape: tuple[int, ...]) -> str:
    """A constant parameter in the shape of the normalised axes; another one as it is."""
    data = t.data(parameter)
    if data is None or data.shape == shape:
        return parameter
    try:
        return t.constant("parameter", np.broadcast_to(data, shape).copy())
    except ValueError:
        raise NotRepresentable(f"a parameter of shape {list(data.shape)} doesn't fit") from None


def instance_norm(t: Translation) -> None:
    """InstanceNormalization."""
    t.emit(Kind.INSTANCE_NORM, t.operands(), {"epsilon": t.node.number("epsilon", 1e-5)})


def group_norm(t: Translation) -> None:
    """GroupNormalization: instance normalisation of groups of channels.

    Before opset 21, scale and bias hold one number for each group; since then, for each channel.
    """
    x, scale, bias = t.operands()
    source = t.type(x)
    groups = t.node.integer("num_groups", 1)
    batch, channels, *spatial = source.shape
    if not groups or channels % groups:
        raise NotRepresentable(f"{channels} channels don't divide into {groups} groups")
    rest = int(np.prod([channels // groups, *spatial], dtype=np.int64))
    grouped = t.reshaped(x, (batch, groups, rest))
    attributes = {"epsilon": t.node.number("epsilon", 1e-5)}
    if t.shape(scale) == (groups,) and groups != channels:
        normal = t.step(Kind.INSTANCE_NORM, (grouped, scale, bias), t.type(grouped), attributes)
        t.emit(Kind.RESHAPE, (normal,), {"shape": source.shape})
        return
    dtype = t.type(scale).dtype.numpy
    ones, zeros = np.ones(groups, dtype), np.zeros(groups, dtype)
    neutral = (grouped, t.constant("ones", ones), t.constant("zeros", zeros))
    normal = t.step(Kind.INSTANCE_NORM, neutral, t.type(grouped), attributes)
    spread = t.reshaped(normal, source.shape)
    column = (channels, *([1] * len(spatial)))
    product = t.step(Kind.MUL, (spread, t.reshaped(scale, column)), source)
    t.emit(Kind.ADD, (product, t.reshaped(bias, column)))


def rms_norm(t: Translation) -> None:
    """RMSNormalization of opset 23, and ONNX Runtime's SimplifiedLayerNormalization."""
    if t.has_output(1) or not t.result.dtype.is_float:
        raise NotRepresentable("its deviation is read")
    x, scale = t.operand(0), t.operand(1)
    source = t.type(x)
    axis = axis_of(t.node.integer("axis", -1), source.rank)
    axes = tuple(range(axis, source.rank))
    kept = TensorType(source.dtype, (*source.shape[:axis], *([1] * len(axes))))
    squares = t.step(Kind.MUL, (x, x), source)
    mean = t.step(Kind.REDUCE_MEAN, (squares,), kept, {"axes": axes, "keepdims": 1})
    epsilon = t.scalar("epsilon", t.node.number("epsilon", 1e-5), source.dtype)
    root = t.step(Kind.SQRT, (t.step(Kind.ADD, (mean, epsilon), kept),), kept)
    normal = t.step(Kind.DIV, (x, root), source)
    t.emit(Kind.MUL, (normal, scale))


def lp_norm(t: Translation) -> None:
    """LpNormalization; a slice whose norm is zero stays zero."""
    kinds = {1: Kind.REDUCE_L1, 2: Kind.REDUCE_L2}
    order = t.node.integer("p", 2)
    x = t.operand(0)
    source = t.type(x)
    if order not in kinds:
        raise NotRepresentable(f"its norm is of order {order}")
    axis = axis_of(t.node.integer("axis", -1), source.rank)
    shape = tuple(1 if index == axis else extent for index, extent in enumerate(source.shape))
    kept = TensorType(source.dtype, shape)
    norm = t.step(kinds[order], (x,), kept, {"axes": (axis,), "keepdims": 1})
    is_zero = t.step(Kind.EQUAL, (norm, t.scalar("zero", 0, source.dtype)), bools_like(kept))
    divisor = t.step(Kind.WHERE, (is_zero, t.scalar("one", 1, source.dtype), norm), kept)
    t.emit(Kind.DIV, (x, divisor))


TABLE: dict[str, Translator] = {
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm,
    "InstanceNormalization": instance_norm,
    "GroupNormalization": group_norm,
    "RMSNormalization": rms_norm,
    "SimplifiedLayerNormalization": rms_norm,
    "LpNormalization": lp_norm,
}
