"""Elementwise operators, comparisons and casts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.translation import NotRepresentable, Translation, Translator
from stages.tensors import DType, TensorType

DIRECT: dict[str, Kind] = {
    "Add": Kind.ADD,
    "Sub": Kind.SUB,
    "Div": Kind.DIV,
    "PRelu": Kind.PRELU,
    "Equal": Kind.EQUAL,
    "Less": Kind.LESS,
    "LessOrEqual": Kind.LESS_OR_EQUAL,
    "Greater": Kind.GREATER,
    "GreaterOrEqual": Kind.GREATER_OR_EQUAL,
    "And": Kind.AND,
    "Or": Kind.OR,
    "Xor": Kind.XOR,
    "Where": Kind.WHERE,
    "Neg": Kind.NEG,
    "Abs": Kind.ABS,
    "Exp": Kind.EXP,
    "Log": Kind.LOG,
    "Sqrt": Kind.SQRT,
    "Reciprocal": Kind.RECIPROCAL,
    "Erf": Kind.ERF,
    "Sin": Kind.SIN,
    "Cos": Kind.COS,
    "Floor": Kind.FLOOR,
    "Ceil": Kind.CEIL,
    "Round": Kind.ROUND,
    "Sign": Kind.SIGN,
    "Not": Kind.NOT,
    "IsNaN": Kind.IS_NAN,
}
"""Operators that mean one kind without attributes."""


def direct(kind: Kind, t: Translation) -> None:
    """An operator that means one kind without attributes."""
    t.emit(kind, t.operands())


def broadcast_type(t: Translation, values: Sequence[str], dtype: DType | None = None) -> TensorType:
    """The type of an elementwise result."""
    shape = np.broadcast_shapes(*(t.shape(value) for value in values))
    return TensorType(dtype or t.type(values[0]).dtype, shape)


def variadic(kind: Kind, t: Translation) -> None:
    """Sum, Max, Min: a chain of two-operand operators."""
    first, *others = t.operands()
    if not others:
        t.alias(first)
        return
    for other in others[:-1]:
        first = t.step(kind, (first, other), broadcast_type(t, (first, other)))
    t.emit(kind, (first, others[-1]))


def mean(t: Translation) -> None:
    """Mean: the sum divided by the number of operands."""
    first, *others = t.operands()
    if not others:
        t.alias(first)
        return
    for other in others:
        first = t.step(Kind.ADD, (first, other), broadcast_type(t, (first, other)))
    count = t.scalar("count", len(others) + 1, t.result.dtype)
    t.emit(Kind.DIV, (first, count))


def power(t: Translation) -> None:
    """Pow: the exponent is brought to the base's type, in which the kind computes."""
    base, exponent = t.operands()
    wanted = t.type(base).dtype
    if t.type(exponent).dtype is not wanted:
        data = t.data(exponent)
        if data is not None and (wanted.is_float or np.array_equal(data, np.trunc(data))):
            exponent = t.constant("exponent", data.astype(wanted.numpy))
        elif wanted.is_float:
            cast_type = TensorType(wanted, t.shape(exponent))
            exponent = t.step(Kind.CAST, (exponent,), cast_type)
        else:
            raise NotRepresentable("its exponent is of another type than its integer base")
    t.emit(Kind.POW, (base, exponent))


def modulo(t: Translation) -> None:
    """Mod."""
    t.emit(Kind.MOD, t.operands(), {"fmod": t.node.integer("fmod", 0)})


def is_infinite(t: Translation) -> None:
    """IsInf: compared with the infinities that the attributes ask for."""
    x = t.operand(0)
    dtype = t.type(x).dtype
    positive = t.node.integer("detect_positive", 1)
    negative = t.node.integer("detect_negative", 1)
    if positive and negative:
        x = t.step(Kind.ABS, (x,), t.type(x))
    elif not positive and not negative:
        raise NotRepresentable("it looks for no infinity")
    bound = t.scalar("infinity", np.inf if positive else -np.inf, dtype)
    t.emit(Kind.EQUAL, (x, bound))


def cast(t: Translation) -> None:
    """Cast and CastLike; one to the type that a value has already is dropped."""
    x = t.operand(0)
    if t.type(x).dtype is t.result.dtype:
        t.alias(x)
    else:
        t.emit(Kind.CAST, (x,))


def identity(t: Translation) -> None:
    """Identity, and Dropout in inference: another name of the same value."""
    t.alias(t.operand(0))


def dropout(t: Translation) -> None:
    """Dropout in inference; the mask is all true."""
    if t.node.version >= 12 and t.has(2):
        training = t.constant_integers(2)
        if training is None or any(training):
            raise NotRepresentable("it trains")
    if t.has_output(1):
        mask = t.node.proto.output[1]
        shape = t.shape(mask)
        ones = np.ones(shape, t.type(mask).dtype.numpy)
        t.alias(t.constant("mask", ones), mask)
    t.alias(t.operand(0))


def _table() -> dict[str, Translator]:
    table: dict[str, Translator] = {name: partial(direct, kind) for name, kind in DIRECT.items()}
    special: dict[str, Callable[[Translation], None]] = {
        "Sum": partial(variadic, Kind.ADD),
        "Max": partial(variadic, Kind.MAXIMUM),
        "Min": partial(variadic, Kind.MINIMUM),
        "Mean": mean,
        "Pow": power,
        "Mod": modulo,
        "IsInf": is_infinite,
        "Cast": cast,
        "CastLike": cast,
        "Identity": identity,
        "Dropout": dropout,
    }
    return table | special


TABLE = _table()
