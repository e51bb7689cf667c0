"""Whether the cascades of a recipe are legal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from stages.recipe.decisions import Cascade, Engine, Group, Recipe
from stages.recipe.printer import print_cascade, print_value_name, quoted
from stages.recipe.refusal import refuse

_ENGINES = (Engine.TENSOR_CORE, Engine.VECTOR)


def verify_cascades(recipe: Recipe) -> None:
    """A cascade lists neighbouring groups of the tensor core and the vector unit, in execution
    order, with nothing between them but views; no group is in two; its stripes lie along an axis of
    its last result; and something passes between its groups."""
    places = {group.name: place for place, group in enumerate(recipe.groups)}
    taken: set[str] = set()
    for cascade in recipe.cascades:
        _verify_groups(recipe, cascade, places, taken)
        members = [recipe.groups[places[name]] for name in cascade.groups]
        _verify_stripe(recipe, cascade, members[-1])
        span = recipe.groups[places[cascade.groups[0]] : places[cascade.groups[-1]] + 1]
        _verify_passing(recipe, cascade, span)
        taken.update(cascade.groups)


def _verify_groups(
    recipe: Recipe, cascade: Cascade, places: dict[str, int], taken: set[str]
) -> None:
    line = partial(print_cascade, cascade)
    if len(cascade.groups) < 2:
        refuse("a cascade of fewer than two groups", line, "", "list two groups or more")
    for name in cascade.groups:
        if name not in places:
            refuse(
                f"{quoted(name)} is no group of the recipe", line, name, "list groups by their name"
            )
        if name in taken:
            refuse(
                f"group {quoted(name)} is in two cascades", line, name, "leave it in one of them"
            )
        group = recipe.groups[places[name]]
        if group.engine not in _ENGINES or group.tile is None:
            refuse(
                f"group {quoted(name)} on {group.engine} has no stripes",
                line,
                name,
                "a cascade holds tiled groups of the tensor core and the vector unit",
            )
    for before, name in pairwise(cascade.groups):
        between = recipe.groups[places[before] + 1 : places[name]]
        follows = places[before] < places[name]
        if not follows or any(group.engine is not Engine.NONE for group in between):
            refuse(
                f"group {quoted(name)} doesn't follow {quoted(before)} in the recipe",
                line,
                name,
                "list neighbouring groups in execution order",
            )


def _verify_stripe(recipe: Recipe, cascade: Cascade, last: Group) -> None:
    made = {operator.name: operator for operator in recipe.graph.operators}
    result = made[last.operators[-1]].outputs[0]
    shape = recipe.graph.types[result].shape
    line = partial(print_cascade, cascade)
    if not 0 <= cascade.axis < len(shape):
        refuse(
            f"{print_value_name(result)} : {recipe.graph.types[result]} has no axis {cascade.axis}",
            line,
            "axis",
            "name an axis of the last group's result",
        )
    if not 1 <= cascade.stripe <= shape[cascade.axis]:
        refuse(
            f"a stripe of {cascade.stripe} along axis {cascade.axis} of "
            f"{print_value_name(result)} : {recipe.graph.types[result]}",
            line,
            "stripe",
            "a stripe has an extent from 1 up to the result's",
        )


def _verify_passing(recipe: Recipe, cascade: Cascade, span: Sequence[Group]) -> None:
    by_name = {operator.name: operator for operator in recipe.graph.operators}
    earlier: set[str] = set()
    for group in span:
        operators = [by_name[name] for name in group.operators]
        reads = any(value in earlier for operator in operators for value in operator.operands)
        if group.engine is Engine.NONE and not reads:
            continue
        if group.engine is not Engine.NONE and reads:
            return
        earlier.update(value for operator in operators for value in operator.outputs)
    refuse(
        "nothing passes between the groups of a cascade",
        partial(print_cascade, cascade),
        "",
        "remove the cascade",
    )
