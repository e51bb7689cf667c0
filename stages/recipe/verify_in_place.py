"""When two values that live at once may lie in the same bytes: one takes the other's place."""

from __future__ import annotations

from stages.recipe.decisions import Engine, Group, Recipe
from stages.recipe.operators import is_elementwise


def takes_place(recipe: Recipe, one: str, other: str) -> bool:
    """Whether of two values the later one takes the place of the earlier one, legally.

    Both have the same bytes, shape, layout and element size; the one dies in the group that makes
    the other, which runs on the vector unit and computes each element from those at the same
    place. Which instruction reads and writes them, and that nobody reads the earlier one
    afterwards, is proved on the plan.
    """
    first, second = sorted((one, other), key=lambda name: recipe.allocations[name].start)
    dying, made = recipe.allocations[first], recipe.allocations[second]
    types, number = recipe.graph.types, made.start
    same_bytes = (dying.memory, dying.offset_bytes, dying.size_bytes) == (
        made.memory,
        made.offset_bytes,
        made.size_bytes,
    )
    alike = (
        types[first].shape == types[second].shape
        and types[first].dtype.size_bytes == types[second].dtype.size_bytes
        and recipe.layout(first) == recipe.layout(second)
    )
    meets_once = dying.start < number and dying.stop == number + 1
    return same_bytes and alike and meets_once and _maps(recipe, number, first, second)


def _maps(recipe: Recipe, number: int, operand: str, result: str) -> bool:
    """Whether a group of the vector unit makes a value of another element by element."""
    if not 0 <= number < len(recipe.groups):
        return False
    group: Group = recipe.groups[number]
    members = [op for op in recipe.graph.operators if op.name in group.operators]
    return (
        group.engine is Engine.VECTOR
        and all(is_elementwise(member.kind) for member in members)
        and any(operand in member.operands for member in members)
        and any(result in member.outputs for member in members)
    )
