"""What a row of the operator table says, and the error that its checks raise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from stages.errors import RecipeError
from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.tensors import TensorType

MANY = 1 << 16
"""The largest operand or result count, where a kind takes any number."""


class IllegalOperatorError(RecipeError):
    """An operator breaks the table: operands, attributes or shapes don't agree with its kind.

    `spot` is what to point at in the operator's line: an operand, a result or an attribute.
    """

    def __init__(self, problem: str, *, spot: str = "", where: str = "", hint: str = "") -> None:
        super().__init__(problem, where=where, hint=hint)
        self.spot = spot


class OperatorClass(StrEnum):
    """Kinds that hardware and compiler treat alike."""

    CONTRACTION = "contraction"
    ELEMENTWISE = "elementwise"
    ACTIVATION = "activation"
    NORMALISATION = "normalisation"
    SOFTMAX = "softmax"
    POOLING = "pooling"
    REDUCTION = "reduction"
    MOVEMENT = "movement"
    FORMAT = "format"
    HOST = "host"


class AttributeType(StrEnum):
    """Types of attributes, as messages name them."""

    INT = "an integer"
    NUMBER = "a number"
    WORD = "a word"
    BYTES = "bytes"
    INTS = "a list of integers"
    NUMBERS = "a list of numbers"
    WORDS = "a list of words"

    def holds(self, value: Attribute) -> bool:
        """Whether a value has this type; an integer is a number too, a bool is neither."""
        if self in _LISTS:
            single = _LISTS[self]
            return isinstance(value, tuple) and all(single.holds(item) for item in value)
        if isinstance(value, bool):
            return False
        return isinstance(value, _SINGLE[self])


_SINGLE: dict[AttributeType, tuple[type, ...]] = {
    AttributeType.INT: (int,),
    AttributeType.NUMBER: (int, float),
    AttributeType.WORD: (str,),
    AttributeType.BYTES: (bytes,),
}
_LISTS = {
    AttributeType.INTS: AttributeType.INT,
    AttributeType.NUMBERS: AttributeType.NUMBER,
    AttributeType.WORDS: AttributeType.WORD,
}


@dataclass(frozen=True, slots=True)
class AttributeRule:
    """One attribute: its type, whether it must be given, and the words that are legal."""

    name: str
    type: AttributeType
    required: bool = True
    words: tuple[str, ...] = ()


ShapeRule = Callable[
    [Operator, Sequence[TensorType | None], Sequence[TensorType]], tuple[TensorType, ...]
]
"""Operator, operand types (None: omitted), declared result types (may be empty) -> result types."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A row of the operator table.

    `operations` is the arithmetic of one element: of the result for elementwise kinds and
    activations, of the operand for normalisation, softmax and reductions, of each tap for pooling.
    A contraction's work is its multiply-accumulates instead.
    """

    kind: Kind
    operator_class: OperatorClass
    least_operands: int
    most_operands: int
    shape_rule: ShapeRule
    attributes: tuple[AttributeRule, ...] = ()
    operations: int = 0
    most_results: int = 1

    def check_attributes(self, operator: Operator) -> None:
        """Every required attribute is there, each has its type, and none is unknown.

        Raises:
            IllegalOperatorError: otherwise.
        """
        known = {rule.name: rule for rule in self.attributes}
        for rule in self.attributes:
            if rule.required and rule.name not in operator.attributes:
                raise IllegalOperatorError(
                    f"{self.kind} needs the attribute {rule.name}, {rule.type}",
                    hint=f"add {rule.name} to the attributes",
                )
        for name, value in operator.attributes.items():
            if name not in known:
                legal = ", ".join(sorted(known)) or "none"
                raise IllegalOperatorError(
                    f"{self.kind} has no attribute {name}",
                    spot=name,
                    hint=f"its attributes are: {legal}",
                )
            _check_value(self.kind, known[name], value)

    def check_operands(self, operand_types: Sequence[TensorType | None]) -> None:
        """The number of operands is legal and no required one is omitted.

        Raises:
            IllegalOperatorError: otherwise.
        """
        count = len(operand_types)
        if not self.least_operands <= count <= self.most_operands:
            raise IllegalOperatorError(
                f"{self.kind} takes {self._operand_range()}, this one has {count}",
                hint="give the operands that kinds.py lists for this kind",
            )
        if self.operator_class is OperatorClass.HOST:
            return
        for place, type_ in enumerate(operand_types[: self.least_operands]):
            if type_ is None:
                raise IllegalOperatorError(
                    f"{self.kind} needs its operand number {place + 1}",
                    hint="only the operands after the required ones can be omitted",
                )

    def _operand_range(self) -> str:
        if self.least_operands == self.most_operands:
            return f"{self.least_operands} operand" + "s" * (self.least_operands != 1)
        if self.most_operands >= MANY:
            return f"{self.least_operands} operands or more"
        return f"{self.least_operands} to {self.most_operands} operands"


def _check_value(kind: Kind, rule: AttributeRule, value: Attribute) -> None:
    if not rule.type.holds(value):
        raise IllegalOperatorError(
            f"attribute {rule.name} of {kind} is {value!r}, it must be {rule.type}",
            spot=rule.name,
            hint=f"write {rule.name} as {rule.type}",
        )
    if rule.words and value not in rule.words:
        raise IllegalOperatorError(
            f"attribute {rule.name} of {kind} is {value!r}",
            spot=rule.name,
            hint=f"it is one of: {', '.join(rule.words)}",
        )
