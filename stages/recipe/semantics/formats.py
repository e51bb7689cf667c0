"""Number formats: cast, quantise, dequantise. Only these round inside a kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stages.recipe.graph import Operator
from stages.recipe.semantics.windows import Values
from stages.tensors import DType, TensorType


def along_axis(vector: Values, axis: int, rank: int) -> Values:
    """A per-axis parameter shaped to broadcast; a per-tensor one (axis -1) as a scalar."""
    if axis < 0 or vector.size == 1:
        return vector.reshape(())
    shape = [1] * rank
    shape[axis] = vector.size
    return vector.reshape(shape)


def cast(
    operator: Operator, operands: Sequence[Values | None], results: Sequence[TensorType]
) -> tuple[Values, ...]:
    """To the result's type: floats truncate to integers, overflow to inf in narrower floats."""
    (x,) = operands
    assert x is not None
    return (x.astype(results[0].dtype.numpy),)


def quantize(
    operator: Operator, operands: Sequence[Values | None], results: Sequence[TensorType]
) -> tuple[Values, ...]:
    """ONNX QuantizeLinear: x / scale, rounded half to even, plus zero point, saturated."""
    x, scale, *rest = operands
    assert x is not None
    assert scale is not None
    axis = operator.integer("axis")
    target = results[0].dtype.numpy
    limits = np.iinfo(str(target))
    real = x.astype(np.float64 if limits.bits > 16 else np.float32, copy=False)
    steps = np.rint(real / along_axis(scale, axis, x.ndim))
    if rest and rest[0] is not None:
        steps += along_axis(rest[0], axis, x.ndim).astype(steps.dtype)
    return (np.clip(steps, limits.min, limits.max).astype(target),)


def dequantize(
    operator: Operator, operands: Sequence[Values | None], results: Sequence[TensorType]
) -> tuple[Values, ...]:
    """ONNX DequantizeLinear: (x - zero point) * scale."""
    x, scale, *rest = operands
    assert x is not None
    assert scale is not None
    axis = operator.integer("axis")
    steps = subtract_zero_point(x, rest[0] if rest else None, axis)
    real = steps.astype(np.float64 if results[0].dtype is DType.F64 else np.float32, copy=False)
    return (real * along_axis(scale, axis, x.ndim),)


def subtract_zero_point(x: Values, zero_point: Values | None, axis: int) -> Values:
    """x minus its zero point, exactly; x itself where there is none."""
    if zero_point is None or not zero_point.any():
        return x
    wide = np.int64 if x.dtype.itemsize >= 4 else np.int32
    return np.asarray(x.astype(wide) - along_axis(zero_point.astype(wide), axis, x.ndim))
