"""Whether a recipe is legal; where it isn't, the error shows its line and points at the place."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from stages.errors import RecipeError
from stages.recipe.decisions import Allocation, Engine, Group, Lifetime, Recipe
from stages.recipe.graph import Graph, Operator
from stages.recipe.operators import TABLE, IllegalOperatorError, agrees, infer
from stages.recipe.printer import (
    print_group,
    print_operator,
    print_value,
    print_value_name,
    quoted,
)
from stages.tensors import LayoutKind


class IllegalRecipeError(RecipeError):
    """A recipe breaks a rule. `where` holds its line, and points below it at the place.

    After a pass it is a bug of the compiler's; whoever reads a recipe that a person edited says so
    to that person.
    """


def verify(recipe: Recipe) -> None:
    """Check the graph, then the decisions about it; the first broken rule is reported.

    Raises:
        IllegalRecipeError: with the line of the operator, group or value.
    """
    _verify_values(recipe)
    for operator in recipe.graph.operators:
        _verify_operator(recipe, operator)
    _verify_groups(recipe)
    _verify_layouts(recipe)
    _verify_tiles(recipe)
    _verify_allocations(recipe)


def verify_graph(graph: Graph) -> None:
    """Check a graph that no decision has been made about.

    Raises:
        IllegalRecipeError: with the line of the operator or value.
    """
    from stages.recipe.decisions import Target

    bare = Recipe(graph, Target("none", "0"), ())
    _verify_values(bare)
    for operator in graph.operators:
        _verify_operator(bare, operator)


def _refuse(problem: str, line: str, spot: str, hint: str) -> None:
    place = line.find(spot) if spot else 0
    marks = "^" * max(len(spot), 1) if spot and place >= 0 else "^" * min(len(line), 60)
    raise IllegalRecipeError(
        problem, where=f"{line}\n    {' ' * max(place, 0)}{marks} {problem}", hint=hint
    )


def _verify_values(recipe: Recipe) -> None:
    """Each value has one definition, before its first use, and a type."""
    graph = recipe.graph
    seen: set[str] = set()
    for keyword, names in (("input", graph.inputs), ("const", graph.constants)):
        for name in names:
            line = f"{keyword} {print_value(recipe, name)}"
            _define(recipe, name, seen, line)
    labels: set[str] = set()
    for operator in graph.operators:
        line = print_operator(recipe, operator)
        if operator.name in labels:
            _refuse(
                f"two operators are named {quoted(operator.name)}",
                line,
                "",
                "give every operator its own name",
            )
        labels.add(operator.name)
        for name in operator.operands:
            if name not in seen:
                _refuse(
                    f"operand {print_value_name(name)} isn't defined before it is read",
                    line,
                    f"({print_value_name(name)}"[1:],
                    "define it as an input, a constant, or the result of an earlier operator",
                )
        for name in operator.outputs:
            _define(recipe, name, seen, line)
    for name in graph.outputs:
        if name not in seen:
            spot = print_value_name(name)
            _refuse(
                f"output {spot} isn't defined",
                f"output {spot}",
                spot,
                "name a value that the graph defines",
            )
    for what, named in (
        ("type", graph.types),
        ("layout", recipe.layouts),
        ("allocation", recipe.allocations),
    ):
        for name in named:
            if name not in seen:
                spot = print_value_name(name)
                _refuse(
                    f"{spot} has a {what}, but nothing defines it",
                    f"value {print_value(recipe, name)}",
                    spot,
                    f"remove the {what}, or define the value",
                )


def _define(recipe: Recipe, name: str, seen: set[str], line: str) -> None:
    spot = print_value_name(name)
    if not name:
        return
    if name in seen:
        _refuse(f"{spot} is defined twice", line, spot, "give every value its own name")
    if name not in recipe.graph.types:
        _refuse(f"{spot} has no type", line, spot, "declare the type of every value")
    seen.add(name)


def _verify_operator(recipe: Recipe, operator: Operator) -> None:
    """Operands, attributes and result types agree with the operator table."""
    types = recipe.graph.types
    line = print_operator(recipe, operator)
    operands = [types[name] if name else None for name in operator.inputs]
    declared = [types[name] for name in operator.outputs if name]
    row = TABLE[operator.kind]
    if not operator.outputs or len(operator.outputs) > row.most_results:
        _refuse(
            f"{operator.kind} has {len(operator.outputs)} results",
            line,
            "",
            "it has one" if row.most_results == 1 else "it has one or more",
        )
    if "" in operator.outputs:
        _refuse(
            f"a result of {operator.kind} has no name", line, "_ :", "give every result a name"
        )
    try:
        inferred = infer(operator, operands, declared)
    except IllegalOperatorError as error:
        _refuse(error.problem, line, f"{error.spot}=" if error.spot else "", error.hint)
        return
    if len(inferred) != len(declared):
        _refuse(
            f"{operator.kind} makes {len(inferred)} results, {len(declared)} are named",
            line,
            "",
            "name every result",
        )
    for name, mine, right in zip(operator.outputs, declared, inferred, strict=True):
        if not agrees(mine, right):
            _refuse(
                f"{print_value_name(name)} is declared as {mine}, {operator.kind} makes {right}",
                line,
                str(mine),
                f"declare it as {right}",
            )


def _verify_groups(recipe: Recipe) -> None:
    """Groups cover the operators, each once, in order; a device group has one external result."""
    graph = recipe.graph
    names: set[str] = set()
    for group in recipe.groups:
        line = print_group(group)
        if group.name in names:
            _refuse(
                f"two groups are named {quoted(group.name)}",
                line,
                "",
                "give every group its own name",
            )
        names.add(group.name)
        if not group.operators:
            _refuse(f"group {quoted(group.name)} is empty", line, "", "remove the group")
    listed = [(name, group) for group in recipe.groups for name in group.operators]
    for place, (name, group) in enumerate(listed):
        expected = graph.operators[place].name if place < len(graph.operators) else None
        if name != expected:
            _refuse(
                f"group {quoted(group.name)} lists {quoted(name)} where the graph has "
                + (quoted(expected) if expected is not None else "no operator left"),
                print_group(group),
                "",
                "groups cover every operator once, in the graph's order",
            )
    if len(listed) < len(graph.operators):
        missing = graph.operators[len(listed)]
        _refuse(
            f"operator {quoted(missing.name)} is in no group",
            print_operator(recipe, missing),
            "",
            "groups cover every operator once, in the graph's order",
        )
    for group, external in _external_results(recipe):
        if group.engine is not Engine.HOST and len(external) != 1:
            _refuse(
                f"group {quoted(group.name)} on {group.engine} has {len(external)} results that "
                f"others read: {', '.join(map(print_value_name, external)) or 'none'}",
                print_group(group),
                str(group.engine),
                "a group on the device has one; cut it in two, or run it on the host",
            )


def _external_results(recipe: Recipe) -> Iterator[tuple[Group, list[str]]]:
    """For each group the values that later groups or the caller read."""
    graph = recipe.graph
    home = {name: place for place, group in enumerate(recipe.groups) for name in group.operators}
    readers: dict[str, set[int]] = {name: {-1} for name in graph.outputs}
    for operator in graph.operators:
        for name in operator.operands:
            readers.setdefault(name, set()).add(home[operator.name])
    by_name = {operator.name: operator for operator in graph.operators}
    for place, group in enumerate(recipe.groups):
        results = [name for each in group.operators for name in by_name[each].outputs]
        yield group, [name for name in results if readers.get(name, set()) - {place}]


def _verify_layouts(recipe: Recipe) -> None:
    """Layouts other than row-major need a channel axis and a spatial one, and a legal quantum."""
    for name, layout in recipe.layouts.items():
        type_ = recipe.graph.types[name]
        line = f"value {print_value(recipe, name)}"
        if layout.kind is not LayoutKind.ROW_MAJOR and type_.rank < 3:
            _refuse(
                f"{print_value_name(name)} of rank {type_.rank} can't be {layout}",
                line,
                str(layout),
                "only tensors of rank 3 or more have another layout than row_major",
            )
        if layout.quantum < 1:
            _refuse(
                f"the layout of {print_value_name(name)} has the quantum {layout.quantum}",
                line,
                str(layout),
                "a quantum is 1 or more",
            )


def _verify_tiles(recipe: Recipe) -> None:
    """A tile lies within the result of its group, and its loops are distinct axes of it."""
    for group, external in _external_results(recipe):
        tile = group.tile
        if tile is None or not external:
            continue
        line = print_group(group)
        name, shape = external[0], recipe.graph.types[external[0]].shape
        fits = len(tile.extents) == len(shape) and all(
            1 <= part <= max(whole, 1) for part, whole in zip(tile.extents, shape, strict=True)
        )
        if not fits:
            _refuse(
                f"the tile {list(tile.extents)} doesn't lie in {print_value_name(name)}, "
                f"{recipe.graph.types[name]}",
                line,
                "tile",
                "a tile has an extent from 1 up to the result's for each of its axes",
            )
        if len(set(tile.order)) != len(tile.order) or any(
            not 0 <= axis < len(shape) for axis in tile.order
        ):
            _refuse(
                f"the order {list(tile.order)} isn't made of distinct axes of "
                f"{print_value_name(name)}",
                line,
                "order",
                "name each axis of the result at most once",
            )
        if tile.slots < 1 or tile.reduction < 0:
            _refuse(
                f"a tile with {tile.slots} slots that contracts {tile.reduction} elements",
                line,
                "slots" if tile.slots < 1 else "reduce",
                "slots are 1 or more, the reduction 0 or more",
            )


def _verify_allocations(recipe: Recipe) -> None:
    """Allocations cover the life of their values, and none overlap while both are live."""
    spans = _live_spans(recipe)
    for name, place in recipe.allocations.items():
        line = f"value {print_value(recipe, name)}"
        spot = print_value_name(name)
        if place.offset_bytes < 0 or place.size_bytes < 0 or place.start >= place.stop:
            _refuse(
                f"{spot} lies at {place.offset_bytes}, {place.size_bytes} bytes, live "
                f"[{place.start},{place.stop})",
                line,
                "at",
                "offsets and sizes aren't negative, and a live range isn't empty",
            )
        start, stop = spans[name]
        if place.lifetime is not Lifetime.EPHEMERAL and not (
            place.start <= start and stop <= place.stop
        ):
            _refuse(
                f"{spot} is live in groups [{start},{stop}), its allocation in "
                f"[{place.start},{place.stop})",
                line,
                f"live [{place.start},{place.stop})",
                f"let the allocation live in [{start},{stop}) at least",
            )
    ordered = sorted(recipe.allocations.items(), key=lambda item: item[1].offset_bytes)
    for (one, first), (other, second) in combinations(ordered, 2):
        if _overlap(first, second):
            _refuse(
                f"{print_value_name(one)} and {print_value_name(other)} share bytes of "
                f"{first.memory} in groups "
                f"[{max(first.start, second.start)},{min(first.stop, second.stop)})",
                f"value {print_value(recipe, other)}",
                print_value_name(other),
                "move one of them",
            )


def _overlap(first: Allocation, second: Allocation) -> bool:
    return (
        first.memory == second.memory
        and first.start < second.stop
        and second.start < first.stop
        and first.offset_bytes < second.offset_bytes + second.size_bytes
        and second.offset_bytes < first.offset_bytes + first.size_bytes
    )


def _live_spans(recipe: Recipe) -> dict[str, tuple[int, int]]:
    """Groups [start, stop) in which each value must be kept: from its group to its last reader."""
    graph = recipe.graph
    home = {name: place for place, group in enumerate(recipe.groups) for name in group.operators}
    spans = {name: (0, 0) for name in (*graph.inputs, *graph.constants)}
    for operator in graph.operators:
        place = home[operator.name]
        for name in operator.outputs:
            spans[name] = (place, place + 1)
        for name in operator.operands:
            start, stop = spans[name]
            spans[name] = (start, max(stop, place + 1))
    for name in graph.outputs:
        spans[name] = (spans[name][0], max(len(recipe.groups), 1))
    return spans
