"""Axes along which all elements of a value are equal, whatever they are."""

from __future__ import annotations

from collections.abc import Mapping

from stages.recipe.decisions import Recipe
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind
from stages.recipe.operators import is_elementwise
from stages.tensors import LayoutKind

_PLACED = frozenset({Kind.QUANTIZE, Kind.DEQUANTIZE})


def equal_axes(recipe: Recipe) -> Mapping[str, frozenset[int]]:
    """The axes of each row-major value along which it repeats itself: those of an expansion, and
    what arithmetic makes of it with others that do so. Values that don't are left out."""
    found: dict[str, frozenset[int]] = {}
    for operator in recipe.graph.operators:
        kind = operator.kind
        if kind is not Kind.EXPAND and not (found and is_elementwise(kind)):
            continue
        name = operator.outputs[0]
        if recipe.layout(name).kind is not LayoutKind.ROW_MAJOR:
            continue
        axes = _axes(operator, recipe.graph, found)
        if axes:
            found[name] = axes
    return found


def _axes(operator: Operator, graph: Graph, found: Mapping[str, frozenset[int]]) -> frozenset[int]:
    result = graph.types[operator.outputs[0]].shape
    axes = {axis for axis, extent in enumerate(result) if extent > 1}
    operands = operator.operands
    if operator.kind in _PLACED:
        operands = operands[:1]
        axes.discard(operator.integer("axis"))
    for name in operands:
        shape = graph.types[name].shape
        missing = len(result) - len(shape)
        equal = found.get(name, frozenset())
        for axis, extent in enumerate(shape):
            if extent > 1 and axis not in equal:
                axes.discard(missing + axis)
    return frozenset(axes)
