"""What a part of a graph is, names left out: equal parts have equal plans and prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stages.recipe.graph import Operator
from stages.tensors import TensorType


def structure(
    operators: Sequence[Operator], types: Mapping[str, TensorType], constants: frozenset[str]
) -> object:
    """What a plan depends on, names left out."""
    numbers = {value: number for number, value in enumerate(types)}
    rows = tuple(
        (
            operator.kind,
            tuple(numbers.get(value, -1) for value in operator.inputs),
            tuple(numbers[value] for value in operator.outputs),
            tuple(sorted(operator.attributes.items())),
        )
        for operator in operators
    )
    return rows, tuple((item, value in constants) for value, item in types.items())
