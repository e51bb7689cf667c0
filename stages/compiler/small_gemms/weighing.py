"""What a rewrite does to the plan of the operators that it changes and of those around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stages.compiler.draft import GraphEditor
from stages.compiler.trial import Surroundings, Trial, part_of, tried
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Operator
from stages.tensors import TensorType


@dataclass(frozen=True, slots=True)
class Weigher:
    """Tries parts of graphs on one device; those that differ in names alone are tried once."""

    spec: HardwareSpec
    known: dict[object, Trial | None] = field(default_factory=dict)

    def trial(self, operators: Sequence[Operator], editor: GraphEditor) -> Trial | None:
        """What operators cost where they stand in an editor; None where they don't fit."""
        part = part_of(Surroundings().of(operators, editor), editor, self.spec)
        graph, constants = part.graph, frozenset(part.constants)
        key = (
            structure(graph.operators, graph.types, constants),
            _places(graph.outputs, graph.types),
        )
        if key not in self.known:
            self.known[key] = tried(part, self.spec)
        return self.known[key]


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


def _places(values: Sequence[str], types: Mapping[str, TensorType]) -> tuple[int, ...]:
    order = list(types)
    return tuple(order.index(value) for value in values)
