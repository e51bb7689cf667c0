"""Which values share storage, and from which group to which each lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stages.compiler.draft import Draft
from stages.compiler.slices import slice_along
from stages.compiler.support import TILED
from stages.compiler.tiling.streams import box_bytes
from stages.recipe.decisions import Engine
from stages.recipe.graph import Attribute, Operator, outer_operands
from stages.recipe.kinds import Kind
from stages.tensors import TensorType, full_box


@dataclass(frozen=True, slots=True)
class Storage:
    """The storage of one value and of its views: live over groups `[start, stop)`.

    `readers` are the numbers of the groups that read it, `producer` the group that fills it (-1
    for a model input), `crosses` whether the host or the caller touches it.
    """

    root: str
    size_bytes: int
    start: int
    stop: int
    producer: int
    readers: tuple[int, ...]
    crosses: bool


def view_operators(draft: Draft) -> dict[str, Operator]:
    """For each value that is a view, the operator that tells where it lies in another one.

    Most views lie in what they are made from. A transpose behind a group that makes its operand
    is written in place instead: the operand lies in the result, by the inverse permutation. So do
    the operands of a concatenation, each at its place.
    """
    operators = {op.name: op for op in draft.graph.operators}
    consumers = draft.graph.consumers()
    made = {
        operators[group.operators[-1]].outputs[0]
        for group in draft.recipe.groups
        if group.engine in TILED
    }
    found: dict[str, Operator] = {}
    for group in draft.recipe.groups:
        for name in group.operators if group.engine is Engine.NONE else ():
            operator = operators[name]
            if operator.kind is Kind.CONCAT:
                pieces = concat_slices(operator, draft.graph.types)
                found |= {piece.outputs[0]: piece for piece in pieces}
                continue
            (source, *_), (result, *_) = operator.inputs, operator.outputs
            alone = len(consumers[source]) == 1 and source not in draft.graph.outputs
            if operator.kind is Kind.TRANSPOSE and source in made and alone:
                found[source] = inverse_transpose(operator)
            else:
                found[result] = operator
    return found


def inverse_transpose(operator: Operator) -> Operator:
    """The transpose that makes the operand of a transpose of its result."""
    permutation = operator.integers("permutation")
    inverse = tuple(permutation.index(axis) for axis in range(len(permutation)))
    attributes: dict[str, Attribute] = {"permutation": inverse}
    return Operator(
        operator.name, Kind.TRANSPOSE, operator.outputs, operator.inputs[:1], attributes
    )


def concat_slices(operator: Operator, types: Mapping[str, TensorType]) -> list[Operator]:
    """For each operand of a concatenation, the slice that makes it of the result."""
    axis, (result,) = operator.integer("axis"), operator.outputs
    shape = types[result].shape
    pieces = []
    start = 0
    for value in operator.operands:
        stop = start + types[value].shape[axis]
        attributes = slice_along(shape, axis, start, stop)
        pieces.append(Operator(operator.name, Kind.SLICE, (result,), (value,), attributes))
        start = stop
    return pieces


def view_roots(draft: Draft, views: Mapping[str, Operator]) -> dict[str, str]:
    """For every value, the value whose storage it shares (itself unless it is a view)."""
    roots: dict[str, str] = {}
    for value in draft.graph.types:
        root = value
        while root in views:
            root = views[root].inputs[0]
        roots[value] = root
    return roots


def storages(draft: Draft, roots: Mapping[str, str]) -> dict[str, Storage]:
    """Every storage that the plan must place, constants apart, by its root."""
    graph = draft.graph
    operators = {op.name: op for op in graph.operators}
    consumers = graph.consumers()
    producer: dict[str, int] = dict.fromkeys(graph.inputs, -1)
    readers: dict[str, list[int]] = {}
    crosses = {roots[value] for value in (*graph.inputs, *graph.outputs)}
    for number, group in enumerate(draft.recipe.groups):
        members = [operators[name] for name in group.operators]
        for value in outer_operands(members):
            readers.setdefault(roots[value], []).append(number)
            if group.engine is Engine.HOST:
                crosses.add(roots[value])
        for value in _left(members, consumers, graph.outputs):
            if group.engine is not Engine.NONE:
                producer.setdefault(roots[value], number)
                if group.engine is Engine.HOST:
                    crosses.add(roots[value])
    count = len(draft.recipe.groups)
    ends = {roots[value] for value in graph.outputs}
    found = {}
    for root, start in producer.items():
        if root in graph.constants:
            continue
        uses = tuple(readers.get(root, ()))
        stop = count if root in ends else max([start, *uses]) + 1
        tensor_type = graph.types[root]
        size = box_bytes(tensor_type, draft.recipe.layout(root), full_box(tensor_type.shape))
        found[root] = Storage(root, size, max(start, 0), stop, start, uses, root in crosses)
    return found


def _left(
    members: list[Operator], consumers: Mapping[str, list[Operator]], outputs: tuple[str, ...]
) -> list[str]:
    """The values that leave a group: results that nobody inside needs alone."""
    made = [value for op in members for value in op.outputs]
    names = {op.name for op in members}

    return [
        value
        for value in made
        if value in outputs
        or not consumers[value]
        or any(reader.name not in names for reader in consumers[value])
    ]
