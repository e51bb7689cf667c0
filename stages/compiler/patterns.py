"""A small pattern language over operators, and the match that binds it to a graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from stages.compiler.draft import GraphEditor
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType

COMMUTATIVE = frozenset({Kind.ADD, Kind.MUL, Kind.MAXIMUM, Kind.MINIMUM})


@dataclass(frozen=True, slots=True)
class Any:
    """Matches any value; the same label must match the same value everywhere."""

    label: str


@dataclass(frozen=True, slots=True)
class Number:
    """Matches a one-element constant within a relative tolerance of 1e-3 (exporters round)."""

    number: float


@dataclass(frozen=True, slots=True)
class Node:
    """Matches an operator's result; operands of sums and products come in any order."""

    kind: Kind
    operands: tuple[Pattern, ...]
    label: str = ""


Pattern = Any | Number | Node


@dataclass(frozen=True, slots=True)
class Match:
    """What a pattern bound: values and operators by label, and every operator inside."""

    values: dict[str, str] = field(default_factory=dict)
    operators: dict[str, Operator] = field(default_factory=dict)
    inside: frozenset[str] = frozenset()


def node(kind: Kind, *operands: Pattern | float, label: str = "") -> Node:
    """A pattern of an operator; plain numbers are one-element constants."""
    wrapped = tuple(Number(item) if isinstance(item, int | float) else item for item in operands)
    return Node(kind, wrapped, label)


def match(pattern: Node, root: Operator, editor: GraphEditor) -> Match | None:
    """The first way in which `pattern` matches the tree that ends in `root`.

    Only the root's result may be read from outside the match.
    """
    for found in _match_operator(pattern, root, Match(), editor):
        if _is_closed(found, root, editor):
            return found
    return None


def scalar(editor: GraphEditor, value: str) -> float | None:
    """The number that a one-element constant holds; None for anything else."""
    data = editor.constants.get(value)
    if data is None or data.size != 1 or DType.of(data.dtype) is DType.BOOL:
        return None
    return float(np.asarray(data, np.float64).reshape(()))


def _match_operator(
    pattern: Node, operator: Operator, found: Match, editor: GraphEditor
) -> Iterator[Match]:
    if operator.kind is not pattern.kind or len(operator.inputs) != len(pattern.operands):
        return
    operators = {**found.operators, pattern.label: operator} if pattern.label else found.operators
    started = Match(found.values, operators, found.inside | {operator.name})
    orders = permutations(operator.inputs) if operator.kind in COMMUTATIVE else [operator.inputs]
    for order in orders:
        yield from _match_all(pattern.operands, tuple(order), started, editor)


def _match_all(
    patterns: tuple[Pattern, ...], values: tuple[str, ...], found: Match, editor: GraphEditor
) -> Iterator[Match]:
    if not patterns:
        yield found
        return
    for first in _match_value(patterns[0], values[0], found, editor):
        yield from _match_all(patterns[1:], values[1:], first, editor)


def _match_value(
    pattern: Pattern, value: str, found: Match, editor: GraphEditor
) -> Iterator[Match]:
    if isinstance(pattern, Any):
        bound = found.values.get(pattern.label)
        if bound is None:
            yield Match({**found.values, pattern.label: value}, found.operators, found.inside)
        elif bound == value:
            yield found
    elif isinstance(pattern, Number):
        number = scalar(editor, value)
        if number is not None and abs(number - pattern.number) <= 1e-3 * abs(pattern.number):
            yield found
    else:
        operator = editor.producer(value)
        if operator is not None:
            yield from _match_operator(pattern, operator, found, editor)


def _is_closed(found: Match, root: Operator, editor: GraphEditor) -> bool:
    for name in found.inside - {root.name}:
        for value in editor.operators[name].outputs:
            if value in editor.outputs or not found.inside.issuperset(editor.readers[value]):
                return False
    return True
