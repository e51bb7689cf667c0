"""Normalisation and softmax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stages.recipe.graph import Operator
from stages.recipe.semantics.windows import Values
from stages.tensors import TensorType


def _present(operands: Sequence[Values | None]) -> list[Values]:
    return [operand for operand in operands if operand is not None]


def _per_channel(vector: Values, rank: int) -> Values:
    return vector.reshape(-1, *(1,) * (rank - 2))


def batch_norm(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """ONNX BatchNormalization in inference: x, scale, bias, mean, variance."""
    x, scale, bias, mean, variance = _present(operands)
    factor = scale / np.sqrt(variance + variance.dtype.type(operator.number("epsilon")))
    shift = bias - mean * factor
    return (x * _per_channel(factor, x.ndim) + _per_channel(shift, x.ndim),)


def _standardise(x: Values, axes: tuple[int, ...], epsilon: float) -> Values:
    centred = x - x.mean(axis=axes, keepdims=True)
    variance = np.square(centred).mean(axis=axes, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + x.dtype.type(epsilon)))


def layer_norm(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """ONNX LayerNormalization over axes `axis` to the last: x, scale[, bias]."""
    x, scale, *bias = _present(operands)
    axes = tuple(range(operator.integer("axis"), x.ndim))
    result = _standardise(x, axes, operator.number("epsilon")) * scale
    return (result + bias[0] if bias else result,)


def instance_norm(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """ONNX InstanceNormalization over the spatial axes: x, scale, bias."""
    x, scale, bias = _present(operands)
    standard = _standardise(x, tuple(range(2, x.ndim)), operator.number("epsilon"))
    return (standard * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim),)


def softmax(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """Softmax along one axis; a row of -inf gives NaN, or zeros where `undefined` is zero."""
    (x,) = _present(operands)
    axis = operator.integer("axis")
    result = x - _greatest(x, axis)
    np.exp(result, out=result)
    result /= result.sum(axis=axis, keepdims=True)
    if operator.attributes.get("undefined") == "zero":
        result[np.isnan(result)] = 0
    return (result,)


def log_softmax(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """The logarithm of softmax along one axis."""
    (x,) = _present(operands)
    axis = operator.integer("axis")
    centred = x - _greatest(x, axis)
    return (centred - np.log(np.exp(centred).sum(axis=axis, keepdims=True)),)


def softmax_numerator(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """exp(x - max(x)) along one axis: within [0, 1]; a row of -inf gives NaN."""
    (x,) = _present(operands)
    return (np.exp(x - _greatest(x, operator.integer("axis"))),)


def _greatest(x: Values, axis: int) -> Values:
    return np.asarray(x.max(axis=axis, keepdims=True, initial=-np.inf))
