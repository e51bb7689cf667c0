"""Rewrites that give each meaning one form, so that later passes have fewer cases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.patterns import COMMUTATIVE
from stages.compiler.slices import slice_along
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, Shape

_WIDE_MEAN = 4096  # elements; the mean of fewer is one step of one tile
_WHOLE_POOLS = {Kind.AVERAGE_POOL: Kind.REDUCE_MEAN, Kind.MAX_POOL: Kind.REDUCE_MAX}


@dataclass(frozen=True, slots=True)
class Canonicalize:
    """Splits become slices, batch normalisation a scale and a shift, transposes that move nothing
    reshapes, pools over everything reductions, wide means scaled sums, casts of int32 to float a
    dequantize; sums and products have their constants last; what does nothing goes.
    """

    name: str = "canonicalize"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Apply every rewrite once, in the order of the operators."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            if operator.name not in editor.operators:
                continue
            current = editor.operators[operator.name]
            if current.kind in COMMUTATIVE and _starts_with_constant(current, editor):
                current = replace(current, inputs=current.inputs[::-1])
                editor.put(current)
            if _does_nothing(current, editor):
                _bypass(current, editor)
            elif current.kind is Kind.SPLIT:
                _split_to_slices(current, editor)
            elif current.kind is Kind.CAST and _is_wide_integer_to_float(current, editor):
                _cast_to_dequantize(current, editor)
            elif current.kind in _WHOLE_POOLS and _pools_everything(current, editor):
                _pool_to_reduction(current, editor)
            elif current.kind is Kind.REDUCE_MEAN:
                _mean_to_sum(current, editor)
            elif current.kind is Kind.BATCH_NORM:
                _batch_norm_to_affine(current, editor)
            elif current.kind is Kind.TRANSPOSE and _moves_only_unit_axes(current, editor):
                shape = editor.types[current.outputs[0]].shape
                editor.put(replace(current, kind=Kind.RESHAPE, attributes={"shape": shape}))
        return editor.finish()


def _does_nothing(operator: Operator, editor: GraphEditor) -> bool:
    if not operator.inputs or not operator.inputs[0]:
        return False
    source, result = editor.types[operator.inputs[0]], editor.types[operator.outputs[0]]
    match operator.kind:
        case Kind.IDENTITY:
            return True
        case Kind.RESHAPE | Kind.EXPAND | Kind.CAST:
            return source == result
        case Kind.CONCAT:
            return len(operator.inputs) == 1
        case Kind.SLICE:
            return source == result and all(step == 1 for step in operator.integers("steps"))
        case Kind.TRANSPOSE:
            permutation = operator.integers("permutation")
            return permutation == tuple(range(len(permutation)))
        case Kind.CLIP:
            return operator.number("min") == -np.inf and operator.number("max") == np.inf
        case Kind.PAD:
            return not any(operator.integers("pads"))
        case Kind.MAXIMUM | Kind.MINIMUM:
            # JAX's softmax takes the larger of the maximum and -inf, which no integer stands for.
            other = editor.constants.get(operator.inputs[1])
            endless = -np.inf if operator.kind is Kind.MAXIMUM else np.inf
            return source == result and other is not None and bool((other == endless).all())
    return False


def _starts_with_constant(operator: Operator, editor: GraphEditor) -> bool:
    first, second = operator.inputs
    return first in editor.constants and second not in editor.constants


def _bypass(operator: Operator, editor: GraphEditor) -> None:
    """Let readers read the operand. An output of the graph keeps an identity when its source
    can't take the name."""
    source, result = operator.inputs[0], operator.outputs[0]
    editor.redirect(result, source)
    if result not in editor.outputs:
        editor.drop(operator.name)
        return
    producer = editor.producer(source)
    movable = (
        producer is not None
        and source not in editor.outputs
        and producer.kind is not Kind.HOST_CALL
    )
    if not movable or producer is None:
        editor.put(replace(operator, kind=Kind.IDENTITY, attributes={}))
        return
    editor.drop(operator.name)
    editor.redirect(source, result)
    outputs = tuple(result if value == source else value for value in producer.outputs)
    editor.put(replace(producer, outputs=outputs))


def _split_to_slices(operator: Operator, editor: GraphEditor) -> None:
    shape = editor.types[operator.inputs[0]].shape
    axis, start = operator.integer("axis"), 0
    editor.drop(operator.name)
    for size, output in zip(operator.integers("sizes"), operator.outputs, strict=True):
        attributes = slice_along(shape, axis, start, start + size)
        start += size
        name = editor.fresh(f"{operator.name}.{output}")
        editor.put(Operator(name, Kind.SLICE, operator.inputs[:1], (output,), attributes))


def _batch_norm_to_affine(operator: Operator, editor: GraphEditor) -> None:
    """`(x - mean) / sqrt(variance + epsilon) * scale + bias`, as one product and one sum."""
    x, *parameters = operator.inputs
    if any(name not in editor.constants for name in parameters):
        return
    scale, bias, mean, variance = (
        np.asarray(editor.constants[name], np.float64) for name in parameters
    )
    factor = scale / np.sqrt(variance + operator.number("epsilon"))
    result = editor.types[operator.outputs[0]]
    per_channel = (-1,) + (1,) * (result.rank - 2)
    numpy_type = result.dtype.numpy
    factor_name = editor.add_constant(
        f"{operator.name}.factor", factor.reshape(per_channel).astype(numpy_type)
    )
    shift_name = editor.add_constant(
        f"{operator.name}.shift", (bias - mean * factor).reshape(per_channel).astype(numpy_type)
    )
    scaled = editor.add_value(f"{operator.name}.scaled", result)
    output = operator.outputs[0]
    editor.put(replace(operator, kind=Kind.ADD, inputs=(scaled, shift_name), attributes={}))
    editor.put(
        Operator(editor.fresh(f"{operator.name}.scale"), Kind.MUL, (x, factor_name), (scaled,))
    )
    assert editor.producers[output].kind is Kind.ADD


def _is_wide_integer_to_float(operator: Operator, editor: GraphEditor) -> bool:
    source, result = editor.types[operator.inputs[0]], editor.types[operator.outputs[0]]
    return source.dtype is DType.I32 and result.dtype.is_float


def _cast_to_dequantize(operator: Operator, editor: GraphEditor) -> None:
    """Accumulators exceed the range of f16; a dequantize rounds only after it was scaled."""
    one = editor.add_constant(f"{operator.name}.scale", np.asarray(1.0, np.float32))
    inputs = (operator.inputs[0], one)
    editor.put(replace(operator, kind=Kind.DEQUANTIZE, inputs=inputs, attributes={"axis": -1}))


def _pools_everything(operator: Operator, editor: GraphEditor) -> bool:
    spatial = editor.types[operator.inputs[0]].shape[2:]
    once = prod(editor.types[operator.outputs[0]].shape[2:]) == 1
    whole = operator.integers("kernel") == spatial and not any(operator.integers("pads"))
    return once and whole


def _pool_to_reduction(operator: Operator, editor: GraphEditor) -> None:
    rank = editor.types[operator.inputs[0]].rank
    attributes: dict[str, Attribute] = {"axes": tuple(range(2, rank)), "keepdims": 1}
    reduction = replace(operator, kind=_WHOLE_POOLS[operator.kind], attributes=attributes)
    editor.put(reduction)
    if reduction.kind is Kind.REDUCE_MEAN:
        _mean_to_sum(reduction, editor)


def _mean_to_sum(operator: Operator, editor: GraphEditor) -> None:
    """A mean over much is a sum, which can be taken in parts, and a product."""
    source, result = editor.types[operator.inputs[0]], editor.types[operator.outputs[0]]
    count = prod(source.shape[axis] for axis in operator.integers("axes"))
    if count < _WIDE_MEAN or not result.dtype.is_float:
        return
    share = np.asarray(1.0 / count, result.dtype.numpy)
    share_name = editor.add_constant(f"{operator.name}.share", share)
    total = editor.add_value(f"{operator.name}.total", result)
    (output,) = operator.outputs
    editor.put(replace(operator, kind=Kind.REDUCE_SUM, outputs=(total,)))
    name = editor.fresh(f"{operator.name}.scale")
    editor.put(Operator(name, Kind.MUL, (total, share_name), (output,)))


def _moves_only_unit_axes(operator: Operator, editor: GraphEditor) -> bool:
    shape: Shape = editor.types[operator.inputs[0]].shape
    kept = [axis for axis in operator.integers("permutation") if shape[axis] != 1]
    return kept == sorted(kept)
