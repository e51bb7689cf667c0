"""Arithmetic work: how often an operator's unit of work is done."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.signatures import OperatorClass
from stages.tensors import TensorType


def contraction_macs(
    operator: Operator,
    operand_types: Sequence[TensorType | None],
    result_types: Sequence[TensorType],
) -> int:
    """Multiply-accumulates of a contraction.

    A transposed convolution multiplies each operand element with each weight of its channel.
    """
    x, weight = operand_types[0], operand_types[1]
    assert x is not None
    assert weight is not None
    if operator.kind is Kind.CONV:
        return result_types[0].element_count * prod(weight.shape[1:])
    if operator.kind is Kind.CONV_TRANSPOSE:
        return x.element_count * prod(weight.shape[1:])
    return result_types[0].element_count * x.shape[-1]


_READS = (OperatorClass.NORMALISATION, OperatorClass.SOFTMAX, OperatorClass.REDUCTION)


def element_operations(
    operator: Operator,
    operator_class: OperatorClass,
    operand_types: Sequence[TensorType | None],
    result_types: Sequence[TensorType],
) -> int:
    """How many elements (or taps of a pooling or resize) an operator works on."""
    results = sum(type_.element_count for type_ in result_types)
    if operator_class in _READS:
        return operand_types[0].element_count if operand_types[0] is not None else 0
    if operator_class is OperatorClass.POOLING:
        return results * prod(operator.integers("kernel"))
    if operator.kind is Kind.RESIZE:
        return results * resize_taps(operator)
    return results


def resize_taps(operator: Operator) -> int:
    """Elements of its operand from which a resize makes one."""
    scales = operator.numbers("scales")
    each = {"nearest": 1, "linear": 2, "cubic": 4}[operator.word("mode")]
    return int(each ** sum(1 for scale in scales if scale != 1))
