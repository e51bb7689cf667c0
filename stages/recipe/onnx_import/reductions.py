"""Reductions."""

from __future__ import annotations

from functools import partial

from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.translation import (
    Attributes,
    NotRepresentable,
    Translation,
    Translator,
    axis_of,
)
from stages.tensors import Shape, TensorType

_FIRST_WITH_AXES_OPERAND = {"ReduceSum": 13}  # the others follow in opset 18


def read_axes(t: Translation) -> Shape:
    """The axes to reduce, sorted; empty where the node reduces nothing.

    Raises:
        NotRepresentable: the axes aren't constant.
    """
    rank = t.type(t.operand(0)).rank
    if t.node.version >= _FIRST_WITH_AXES_OPERAND.get(t.node.proto.op_type, 18):
        axes = t.constant_integers(1)
    else:
        axes = t.node.integers("axes")
    if not axes:
        return () if t.node.integer("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted({axis_of(axis, rank) for axis in axes}))


def reduce(kind: Kind, t: Translation) -> None:
    """A reduction that a kind means as it is."""
    axes = read_axes(t)
    if not axes:
        _reduce_nothing(kind, t)
        return
    attributes: Attributes = {"axes": axes, "keepdims": t.node.integer("keepdims", 1)}
    t.emit(kind, (t.operand(0),), attributes)


def _reduce_nothing(kind: Kind, t: Translation) -> None:
    """No axes: each element is reduced by itself."""
    x = t.operand(0)
    if kind in {Kind.REDUCE_L1, Kind.REDUCE_L2}:
        t.emit(Kind.ABS, (x,))
    elif kind is Kind.REDUCE_SUM_SQUARE:
        t.emit(Kind.MUL, (x, x))
    else:
        t.alias(x)


def _kept(t: Translation, axes: Shape) -> TensorType:
    source = t.type(t.operand(0))
    shape = tuple(1 if axis in axes else extent for axis, extent in enumerate(source.shape))
    return TensorType(source.dtype, shape)


def log_sum(t: Translation) -> None:
    """ReduceLogSum: the logarithm of a sum."""
    x = t.operand(0)
    axes = read_axes(t)
    if axes:
        attributes: Attributes = {"axes": axes, "keepdims": t.node.integer("keepdims", 1)}
        x = t.step(Kind.REDUCE_SUM, (x,), t.result, attributes)
    t.emit(Kind.LOG, (x,))


def log_sum_exp(t: Translation) -> None:
    """ReduceLogSumExp, less the largest element first, so that no exponential overflows."""
    x = t.operand(0)
    axes = read_axes(t)
    if not axes or not t.result.dtype.is_float:
        raise NotRepresentable("it reduces no axes, or integers")
    kept = _kept(t, axes)
    attributes: Attributes = {"axes": axes, "keepdims": 1}
    largest = t.step(Kind.REDUCE_MAX, (x,), kept, attributes)
    less = t.step(Kind.SUB, (x, largest), t.type(x))
    exponential = t.step(Kind.EXP, (less,), t.type(x))
    total = t.step(Kind.REDUCE_SUM, (exponential,), kept, attributes)
    logarithm = t.step(Kind.LOG, (total,), kept)
    if kept.shape == t.result.shape:
        t.emit(Kind.ADD, (logarithm, largest))
        return
    together = t.step(Kind.ADD, (logarithm, largest), kept)
    t.emit(Kind.RESHAPE, (together,), {"shape": t.result.shape})


TABLE: dict[str, Translator] = {
    "ReduceSum": partial(reduce, Kind.REDUCE_SUM),
    "ReduceMean": partial(reduce, Kind.REDUCE_MEAN),
    "ReduceMax": partial(reduce, Kind.REDUCE_MAX),
    "ReduceMin": partial(reduce, Kind.REDUCE_MIN),
    "ReduceProd": partial(reduce, Kind.REDUCE_PROD),
    "ReduceL1": partial(reduce, Kind.REDUCE_L1),
    "ReduceL2": partial(reduce, Kind.REDUCE_L2),
    "ReduceSumSquare": partial(reduce, Kind.REDUCE_SUM_SQUARE),
    "ReduceLogSum": log_sum,
    "ReduceLogSumExp": log_sum_exp,
}
