"""Activation functions."""

from __future__ import annotations

from functools import partial

import numpy as np

from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.translation import NotRepresentable, Translation, Translator, axis_of
from stages.tensors import DType, TensorType


def plain(kind: Kind, t: Translation) -> None:
    """An activation without attributes."""
    t.emit(kind, (t.operand(0),))


def with_numbers(kind: Kind, defaults: dict[str, float], t: Translation) -> None:
    """An activation whose attributes are numbers with defaults."""
    attributes = {name: t.node.number(name, default) for name, default in defaults.items()}
    t.emit(kind, (t.operand(0),), attributes)


def clip(t: Translation) -> None:
    """Clip: constant bounds become attributes, others operands of maximum and minimum."""
    if t.node.version < 11:
        low = t.node.number("min", -np.inf)
        high = t.node.number("max", np.inf)
        t.emit(Kind.CLIP, (t.operand(0),), {"min": low, "max": high})
        return
    try:
        low = t.constant_number(1, -np.inf)
        high = t.constant_number(2, np.inf)
    except NotRepresentable:
        _clip_by_values(t)
        return
    t.emit(Kind.CLIP, (t.operand(0),), {"min": min(low, high), "max": high})


def _clip_by_values(t: Translation) -> None:
    x, low, high = t.operand(0), t.operand(1), t.operand(2)
    if low and not high:
        t.emit(Kind.MAXIMUM, (x, low))
        return
    if low:
        x = t.step(Kind.MAXIMUM, (x, low), t.type(x))
    t.emit(Kind.MINIMUM, (x, high))


def gelu(t: Translation) -> None:
    """Gelu of opset 20."""
    t.emit(Kind.GELU, (t.operand(0),), {"approximate": t.node.word("approximate", "none")})


def celu(t: Translation) -> None:
    """Celu: alpha * elu(x / alpha)."""
    alpha = t.node.number("alpha", 1.0)
    x = t.operand(0)
    if alpha == 1.0:
        t.emit(Kind.ELU, (x,), {"alpha": 1.0})
        return
    factor = t.scalar("alpha", alpha, t.result.dtype)
    scaled = t.step(Kind.DIV, (x, factor), t.result)
    bent = t.step(Kind.ELU, (scaled,), t.result, {"alpha": 1.0})
    t.emit(Kind.MUL, (bent, factor))


def thresholded_relu(t: Translation) -> None:
    """ThresholdedRelu: x where it is greater than alpha, else zero."""
    x = t.operand(0)
    dtype = t.result.dtype
    threshold = t.scalar("alpha", t.node.number("alpha", 1.0), dtype)
    above_type = TensorType(DType.BOOL, t.result.shape)
    above = t.step(Kind.GREATER, (x, threshold), above_type)
    t.emit(Kind.WHERE, (above, x, t.scalar("zero", 0.0, dtype)))


def softmax(kind: Kind, t: Translation) -> None:
    """Softmax and LogSoftmax; before opset 13 over all axes from `axis` on."""
    x = t.operand(0)
    shape = t.shape(x)
    old = t.node.version < 13
    axis = axis_of(t.node.integer("axis", 1 if old else -1), len(shape))
    if not old or axis == len(shape) - 1:
        t.emit(kind, (x,), {"axis": axis})
        return
    rows = int(np.prod(shape[:axis], dtype=np.int64))
    flat = t.reshaped(x, (rows, int(np.prod(shape[axis:], dtype=np.int64))))
    result = t.step(kind, (flat,), t.type(flat), {"axis": 1})
    t.emit(Kind.RESHAPE, (result,), {"shape": shape})


def swish(t: Translation) -> None:
    """Swish of opset 24: x * sigmoid(alpha * x)."""
    scaled_sigmoid(t, t.node.number("alpha", 1.0))


def scaled_sigmoid(t: Translation, alpha: float) -> None:
    """x * sigmoid(alpha * x); SiLU where alpha is 1."""
    x = t.operand(0)
    if alpha == 1.0:
        t.emit(Kind.SILU, (x,))
        return
    scaled = t.step(Kind.MUL, (x, t.scalar("alpha", alpha, t.result.dtype)), t.result)
    gate = t.step(Kind.SIGMOID, (scaled,), t.result)
    t.emit(Kind.MUL, (x, gate))


TABLE: dict[str, Translator] = {
    "Relu": partial(plain, Kind.RELU),
    "Tanh": partial(plain, Kind.TANH),
    "Sigmoid": partial(plain, Kind.SIGMOID),
    "HardSwish": partial(plain, Kind.HARD_SWISH),
    "Softplus": partial(plain, Kind.SOFTPLUS),
    "Softsign": partial(plain, Kind.SOFTSIGN),
    "Mish": partial(plain, Kind.MISH),
    "LeakyRelu": partial(with_numbers, Kind.LEAKY_RELU, {"alpha": 0.01}),
    "Elu": partial(with_numbers, Kind.ELU, {"alpha": 1.0}),
    "HardSigmoid": partial(with_numbers, Kind.HARD_SIGMOID, {"alpha": 0.2, "beta": 0.5}),
    "Selu": partial(
        with_numbers,
        Kind.SELU,
        {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
    ),
    "Clip": clip,
    "Gelu": gelu,
    "Celu": celu,
    "ThresholdedRelu": thresholded_relu,
    "Swish": swish,
    "Softmax": partial(softmax, Kind.SOFTMAX),
    "LogSoftmax": partial(softmax, Kind.LOG_SOFTMAX),
}
