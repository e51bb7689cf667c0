"""What each operator kind computes: one table, and the rules about precision around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.semantics import (
    contraction,
    elementwise,
    formats,
    movement,
    normalisation,
    pooling,
    resize,
)
from stages.recipe.semantics.activation import ACTIVATIONS, activation
from stages.recipe.semantics.reduction import REDUCTIONS, reduction
from stages.recipe.semantics.windows import Values
from stages.tensors import Array, DType, TensorType

Meaning = Callable[[Operator, Sequence[Values | None], Sequence[TensorType]], tuple[Values, ...]]

MEANINGS: dict[Kind, Meaning] = {
    Kind.CONV: contraction.conv,
    Kind.CONV_TRANSPOSE: contraction.conv_transpose,
    Kind.MATMUL: contraction.matmul,
    **dict.fromkeys(elementwise.BINARY, elementwise.binary),
    **dict.fromkeys(elementwise.UNARY, elementwise.unary),
    Kind.MOD: elementwise.modulo,
    Kind.WHERE: elementwise.where,
    **dict.fromkeys(ACTIVATIONS, activation),
    Kind.BATCH_NORM: normalisation.batch_norm,
    Kind.LAYER_NORM: normalisation.layer_norm,
    Kind.INSTANCE_NORM: normalisation.instance_norm,
    Kind.SOFTMAX: normalisation.softmax,
    Kind.LOG_SOFTMAX: normalisation.log_softmax,
    Kind.SOFTMAX_NUMERATOR: normalisation.softmax_numerator,
    Kind.MAX_POOL: pooling.max_pool,
    Kind.AVERAGE_POOL: pooling.average_pool,
    **dict.fromkeys(REDUCTIONS, reduction),
    Kind.CONCAT: movement.concat,
    Kind.SLICE: movement.slice_box,
    Kind.SPLIT: movement.split,
    Kind.PAD: movement.pad,
    Kind.RESIZE: resize.resize,
    Kind.TRANSPOSE: movement.transpose,
    Kind.RESHAPE: movement.reshape,
    Kind.EXPAND: movement.expand,
    Kind.GATHER: movement.gather,
    Kind.IDENTITY: movement.identity,
    Kind.RELAYOUT: movement.identity,
    Kind.CAST: formats.cast,
    Kind.QUANTIZE: formats.quantize,
    Kind.DEQUANTIZE: formats.dequantize,
}

_PICKS = frozenset({Kind.GATHER, Kind.SLICE, Kind.SPLIT})
"""These copy a part of their operand: its elements are widened afterwards, only those taken."""

_HALF_BITS = np.array(0x8FFFE000, np.uint32).view(np.int32)
_HALF_EXPONENT = np.float32(2.0**112)


def evaluate(
    operator: Operator, operands: Sequence[Array | None], result_types: Sequence[TensorType]
) -> tuple[Array, ...]:
    """What an operator makes of its operands (None where an optional one is omitted).

    Floats are computed in float32 whatever the operand's type, float64 in float64, and results come
    back in that precision: the caller rounds when it stores. Only `cast` and `quantize` round.
    Results may be views of the operands.

    Raises:
        InputError: an index or a shape that depends on data is out of range.
        ValueError: the operator is a `host_call`, which has no meaning here.
    """
    meaning = MEANINGS.get(operator.kind)
    if meaning is None:
        raise ValueError(f"{operator.kind} {operator.name!r} runs in the host's own runtime")
    with np.errstate(all="ignore"):
        if operator.kind not in _PICKS:
            operands = [_widened(operand) for operand in operands]
        results = meaning(operator, operands, result_types)
    return tuple(
        _settled(result, type_) for result, type_ in zip(results, result_types, strict=True)
    )


def rounded(array: Array, type_: TensorType) -> Array:
    """An array rounded to the element type in which it is stored."""
    with np.errstate(all="ignore"):
        return array.astype(type_.dtype.numpy, copy=False)


def _widened(operand: Array | None) -> Values | None:
    if operand is None or operand.dtype.itemsize != 2:
        return operand
    if operand.dtype == np.float16:
        return _from_half(operand)
    return operand.astype(np.float32) if operand.dtype == DType.BF16.numpy else operand


def _from_half(half: Array) -> Values:
    """float16 as float32, seven times as fast as numpy's own conversion.

    The bits move to float32's places, and a multiplication mends the exponent (subnormals too);
    infinities and NaN, which that makes 65536 or more, go the slow way.
    """
    bits = half.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= _HALF_BITS
    wide = bits.view(np.float32)
    wide *= _HALF_EXPONENT
    if wide.size and max(wide.max(), -wide.min()) >= 65536:
        return half.astype(np.float32)
    return wide


def _settled(result: Values, type_: TensorType) -> Array:
    if not type_.dtype.is_float:
        return np.asarray(result).astype(type_.dtype.numpy, copy=False)
    wanted = DType.F64.numpy if type_.dtype is DType.F64 else DType.F32.numpy
    wide = _widened(np.asarray(result))
    assert wide is not None
    return wide.astype(wanted, copy=False)
