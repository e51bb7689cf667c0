"""The immutable graph of typed operators that a recipe is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stages.recipe.kinds import Kind
from stages.tensors import TensorType

Attribute = int | float | str | bytes | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator; `kinds.py` says what its operands and attributes are.

    An omitted optional operand is an empty name.
    """

    name: str
    kind: Kind
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)

    @property
    def operands(self) -> tuple[str, ...]:
        """The operands that are present."""
        return tuple([name for name in self.inputs if name])

    def form(self, numbers: Mapping[str, int]) -> tuple[object, ...]:
        """What it does, its name left out and its values by their numbers."""
        return (
            self.kind,
            tuple(numbers[value] for value in self.inputs),
            tuple(numbers[value] for value in self.outputs),
            tuple(sorted(self.attributes.items())),
        )

    def integers(self, attribute: str) -> tuple[int, ...]:
        """An attribute that is a list of integers.

        Raises:
            KeyError: the attribute is missing.
        """
        value = self.attributes[attribute]
        assert isinstance(value, tuple)
        return tuple(map(int, value))

    def integer(self, attribute: str) -> int:
        """An attribute that is an integer."""
        value = self.attributes[attribute]
        assert isinstance(value, int)
        return value

    def number(self, attribute: str) -> float:
        """An attribute that is a number."""
        value = self.attributes[attribute]
        assert isinstance(value, int | float)
        return float(value)

    def numbers(self, attribute: str) -> tuple[float, ...]:
        """An attribute that is a list of numbers."""
        value = self.attributes[attribute]
        assert isinstance(value, tuple)
        return tuple(float(item) for item in value)

    def word(self, attribute: str) -> str:
        """An attribute that is a word."""
        value = self.attributes[attribute]
        assert isinstance(value, str)
        return value


@dataclass(frozen=True, slots=True)
class Graph:
    """Operators in an order in which each runs after what it reads.

    `types` holds the type of every value; the data of `constants` lies beside the graph, by name.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: tuple[str, ...]
    types: Mapping[str, TensorType]
    operators: tuple[Operator, ...]

    def producers(self) -> dict[str, Operator]:
        """The operator that makes each value."""
        return {output: operator for operator in self.operators for output in operator.outputs}

    def consumers(self) -> dict[str, list[Operator]]:
        """The operators that read each value, once each, in order; graph outputs not counted."""
        readers: dict[str, list[Operator]] = {name: [] for name in self.types}
        for operator in self.operators:
            for name in dict.fromkeys(operator.operands):
                readers[name].append(operator)
        return readers


def outer_operands(operators: Sequence[Operator]) -> tuple[str, ...]:
    """What operators read that none of them makes: each value once, in the order of reading."""
    inside = {value for operator in operators for value in operator.outputs}
    read = dict.fromkeys(value for operator in operators for value in operator.operands)
    return tuple(value for value in read if value not in inside)
