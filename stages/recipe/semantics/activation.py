"""Activations: elementwise functions of one operand with constants as attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, sqrt

import numpy as np

from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.semantics.elementwise import erf, prelu
from stages.recipe.semantics.windows import Values
from stages.tensors import TensorType


def sigmoid(x: Values) -> Values:
    """1 / (1 + exp(-x)); exp may overflow to inf, which gives the right zero."""
    result = np.asarray(np.negative(x))  # of a scalar numpy makes no array
    np.exp(result, out=result)
    result += 1
    np.reciprocal(result, out=result)
    return result


def softplus(x: Values) -> Values:
    """log(1 + exp(x)) without overflow."""
    return np.asarray(np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0))


def _clip(operator: Operator, x: Values) -> Values:
    low, high = operator.attributes["min"], operator.attributes["max"]
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    if x.dtype.kind == "f":
        return np.asarray(np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high)))
    limits = np.iinfo(x.dtype)
    floor = _bounded(low, int(limits.min), int(limits.max))
    ceiling = _bounded(high, int(limits.min), int(limits.max))
    return np.asarray(np.minimum(np.maximum(x, x.dtype.type(floor)), x.dtype.type(ceiling)))


def _bounded(bound: float, least: int, most: int) -> int:
    if bound <= least:
        return least
    return most if bound >= most else int(bound)


def _gelu(operator: Operator, x: Values) -> Values:
    if operator.word("approximate") == "tanh":
        inner = x.dtype.type(sqrt(2 / pi)) * (x + x.dtype.type(0.044715) * x * x * x)
        return np.asarray(x * 0.5 * (1 + np.tanh(inner)))
    return np.asarray(x * 0.5 * (1 + erf(x * x.dtype.type(sqrt(0.5)))))


def _elu(operator: Operator, x: Values) -> Values:
    return np.asarray(operator.number("alpha") * np.expm1(np.minimum(x, 0)) + np.maximum(x, 0))


def _selu(operator: Operator, x: Values) -> Values:
    return np.asarray(operator.number("gamma") * _elu(operator, x))


def _hard_sigmoid(operator: Operator, x: Values) -> Values:
    return np.clip(operator.number("alpha") * x + operator.number("beta"), 0, 1)


ACTIVATIONS: dict[Kind, Callable[[Operator, Values], Values]] = {
    Kind.RELU: lambda _, x: np.maximum(x, 0),
    Kind.LEAKY_RELU: lambda operator, x: prelu(x, x.dtype.type(operator.number("alpha"))),
    Kind.CLIP: _clip,
    Kind.TANH: lambda _, x: np.tanh(x),
    Kind.SIGMOID: lambda _, x: sigmoid(x),
    Kind.HARD_SIGMOID: _hard_sigmoid,
    Kind.HARD_SWISH: lambda _, x: x * np.clip(x * x.dtype.type(1 / 6) + x.dtype.type(0.5), 0, 1),
    Kind.SILU: lambda _, x: x * sigmoid(x),
    Kind.GELU: _gelu,
    Kind.ELU: _elu,
    Kind.SELU: _selu,
    Kind.SOFTPLUS: lambda _, x: softplus(x),
    Kind.SOFTSIGN: lambda _, x: x / (1 + np.abs(x)),
    Kind.MISH: lambda _, x: x * np.tanh(softplus(x)),
}


def activation(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """Any kind of `ACTIVATIONS`."""
    (x,) = operands
    assert x is not None
    return (ACTIVATIONS[operator.kind](operator, x),)
