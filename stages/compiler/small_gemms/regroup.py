"""Grouped convolutions with fewer, wider groups: weights between the old groups are zeros, a mask.

An array wider than a group leaves its other columns and lanes idle. Several groups as one fill
them, at the price of multiplying by zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from stages.compiler.draft import GraphEditor
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import Array

MOST_CHANNELS = 512
"""Channels of a wider group: no array is wider."""


def widths(operator: Operator, editor: GraphEditor) -> Iterator[int]:
    """How many groups of a convolution may be one, from few to many; none where it has no groups,
    or weights that aren't constant."""
    if operator.kind is not Kind.CONV or operator.integer("group") == 1:
        return
    if _stored(operator, editor) is None:
        return
    groups = operator.integer("group")
    weights = editor.types[operator.inputs[1]].shape
    each = max(weights[0] // groups, weights[1])
    for together in range(2, groups + 1):
        if groups % together == 0 and together * each <= MOST_CHANNELS:
            yield together


def regroup(operator: Operator, together: int, editor: GraphEditor) -> Operator:
    """Make one group of every `together` groups, in the editor; returns the convolution."""
    name = _stored(operator, editor)
    assert name is not None
    groups = operator.integer("group")
    data = editor.constants[name]
    producer = editor.producer(operator.inputs[1])
    zero: Array = np.zeros((), data.dtype)
    if producer is not None and len(producer.operands) > 2:
        zero = editor.constants[producer.inputs[2]].reshape(-1, *(1,) * (data.ndim - 1))
    masked = editor.add_constant(f"{name}.masked", _masked(data, groups, together, zero))
    weights = masked
    if producer is not None:
        restored = replace(editor.types[operator.inputs[1]], shape=editor.constants[masked].shape)
        weights = editor.add_value(f"{operator.name}.masked", restored)
        inputs = (masked, *producer.inputs[1:])
        editor.put(replace(producer, name=editor.fresh(weights), inputs=inputs, outputs=(weights,)))
    wider = replace(
        operator,
        inputs=(operator.inputs[0], weights, *operator.inputs[2:]),
        attributes={**operator.attributes, "group": groups // together},
    )
    editor.put(wider)
    return wider


def _stored(operator: Operator, editor: GraphEditor) -> str | None:
    """The constant that holds the weights, dequantised by output channel or as a whole."""
    value = operator.inputs[1]
    if value in editor.constants:
        return value
    producer = editor.producer(value)
    if producer is None or producer.kind is not Kind.DEQUANTIZE:
        return None
    constant = all(name in editor.constants for name in producer.operands)
    return producer.inputs[0] if constant and producer.integer("axis") in (-1, 0) else None


def _masked(data: Array, groups: int, together: int, zero: Array) -> Array:
    """Weights [out, in of a group, ...] as [out, together x in of a group, ...]: the place of
    another group's channels holds `zero`, one for each output channel or for all."""
    out, inner, *kernel = data.shape
    wide: Array = np.empty((out, together * inner, *kernel), data.dtype)
    wide[...] = zero
    per_group = out // groups
    for group in range(groups):
        rows = slice(group * per_group, (group + 1) * per_group)
        start = group % together * inner
        wide[rows, start : start + inner] = data[rows]
    return wide
