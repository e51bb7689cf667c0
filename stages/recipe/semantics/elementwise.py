"""Elementwise operators of one, two or three operands; they broadcast as numpy does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.semantics.windows import Values
from stages.tensors import TensorType


def divide(a: Values, b: Values) -> Values:
    """Division; integers truncate towards zero, and division by zero gives zero."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    quotient = a // b
    inexact = (quotient * b != a) & ((a < 0) != (b < 0)) & (b != 0)
    return np.asarray(quotient + inexact.astype(quotient.dtype))


def power(a: Values, b: Values) -> Values:
    """a to the power b, in the type of a as ONNX says."""
    if a.dtype.kind == "f":
        return np.asarray(np.power(a, b.astype(a.dtype, copy=False)))
    if b.dtype.kind in "iu" and not (b < 0).any():
        return np.asarray(np.power(a, b).astype(a.dtype))
    return np.asarray(np.power(a.astype(np.float64), b).astype(a.dtype))


def prelu(a: Values, slope: Values) -> Values:
    """a where it is positive or zero, a times the slope elsewhere.

    Written without a choice: numpy's `where` costs ten times as much as these three.
    """
    return np.asarray(np.minimum(a, 0) * slope + np.maximum(a, 0))


def erf(a: Values) -> Values:
    """The error function."""
    from scipy.special import erf as scipy_erf

    return np.asarray(scipy_erf(a))


UNARY: dict[Kind, Callable[[Values], Values]] = {
    Kind.NEG: np.negative,
    Kind.ABS: np.abs,
    Kind.EXP: np.exp,
    Kind.LOG: np.log,
    Kind.SQRT: np.sqrt,
    Kind.RECIPROCAL: np.reciprocal,
    Kind.ERF: erf,
    Kind.SIN: np.sin,
    Kind.COS: np.cos,
    Kind.FLOOR: np.floor,
    Kind.CEIL: np.ceil,
    Kind.ROUND: np.rint,
    Kind.SIGN: np.sign,
    Kind.NOT: np.logical_not,
    Kind.IS_NAN: np.isnan,
}

BINARY: dict[Kind, Callable[[Values, Values], Values]] = {
    Kind.ADD: np.add,
    Kind.SUB: np.subtract,
    Kind.MUL: np.multiply,
    Kind.DIV: divide,
    Kind.POW: power,
    Kind.MINIMUM: np.minimum,
    Kind.MAXIMUM: np.maximum,
    Kind.PRELU: prelu,
    Kind.EQUAL: np.equal,
    Kind.LESS: np.less,
    Kind.LESS_OR_EQUAL: np.less_equal,
    Kind.GREATER: np.greater,
    Kind.GREATER_OR_EQUAL: np.greater_equal,
    Kind.AND: np.logical_and,
    Kind.OR: np.logical_or,
    Kind.XOR: np.logical_xor,
}


def unary(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """Any kind of `UNARY`."""
    (x,) = operands
    assert x is not None
    return (UNARY[operator.kind](x),)


def binary(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """Any kind of `BINARY`."""
    a, b = operands
    assert a is not None
    assert b is not None
    return (BINARY[operator.kind](a, b),)


def modulo(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """The remainder: with the sign of a where `fmod` is 1, of b where it is 0."""
    a, b = operands
    assert a is not None
    assert b is not None
    return (np.fmod(a, b) if operator.integer("fmod") else np.mod(a, b),)


def where(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """x where the condition holds, y elsewhere."""
    condition, x, y = operands
    assert condition is not None
    assert x is not None
    assert y is not None
    return (np.where(condition, x, y),)
