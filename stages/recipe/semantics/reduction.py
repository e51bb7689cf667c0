"""Reductions over listed axes; integers keep their type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.semantics.windows import Values
from stages.tensors import TensorType

Reduce = Callable[[Values, tuple[int, ...], bool], Values]


def _sum(x: Values, axes: tuple[int, ...], keep: bool) -> Values:
    return np.asarray(np.sum(x, axis=axes, keepdims=keep, dtype=x.dtype))


def _mean(x: Values, axes: tuple[int, ...], keep: bool) -> Values:
    total = _sum(x, axes, keep)
    count = prod(x.shape[axis] for axis in axes)
    if x.dtype.kind == "f":
        return np.asarray(total / x.dtype.type(count))
    return np.asarray(np.trunc(total / count).astype(x.dtype))


def _extreme(x: Values, axes: tuple[int, ...], keep: bool, ufunc: np.ufunc, empty: float) -> Values:
    if x.size:
        return np.asarray(ufunc.reduce(x, axis=axes, keepdims=keep))
    return np.asarray(ufunc.reduce(x, axis=axes, keepdims=keep, initial=x.dtype.type(empty)))


def _max(x: Values, axes: tuple[int, ...], keep: bool) -> Values:
    least = -np.inf if x.dtype.kind == "f" else _limits(x)[0]
    return _extreme(x, axes, keep, np.maximum, least)


def _min(x: Values, axes: tuple[int, ...], keep: bool) -> Values:
    most = np.inf if x.dtype.kind == "f" else _limits(x)[1]
    return _extreme(x, axes, keep, np.minimum, most)


def _limits(x: Values) -> tuple[int, int]:
    if x.dtype.kind == "b":
        return 0, 1
    limits = np.iinfo(x.dtype)
    return int(limits.min), int(limits.max)


def _prod(x: Values, axes: tuple[int, ...], keep: bool) -> Values:
    return np.asarray(np.prod(x, axis=axes, keepdims=keep, dtype=x.dtype))


def _l1(x: Values, axes: tuple[int, ...], keep: bool) -> Values:
    return _sum(np.abs(x), axes, keep)


def _sum_square(x: Values, axes: tuple[int, ...], keep: bool) -> Values:
    return _sum(np.square(x), axes, keep)


def _l2(x: Values, axes: tuple[int, ...], keep: bool) -> Values:
    return np.asarray(np.sqrt(_sum_square(x, axes, keep)).astype(x.dtype, copy=False))


REDUCTIONS: dict[Kind, Reduce] = {
    Kind.REDUCE_SUM: _sum,
    Kind.REDUCE_MEAN: _mean,
    Kind.REDUCE_MAX: _max,
    Kind.REDUCE_MIN: _min,
    Kind.REDUCE_PROD: _prod,
    Kind.REDUCE_L1: _l1,
    Kind.REDUCE_L2: _l2,
    Kind.REDUCE_SUM_SQUARE: _sum_square,
}


def reduction(
    operator: Operator, operands: Sequence[Values | None], _: Sequence[TensorType]
) -> tuple[Values, ...]:
    """Any kind of `REDUCTIONS`; no axes reduce nothing."""
    (x,) = operands
    assert x is not None
    axes, keep = operator.integers("axes"), bool(operator.integer("keepdims"))
    return (REDUCTIONS[operator.kind](x, axes, keep),)
