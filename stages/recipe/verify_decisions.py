"""Whether the decisions about a graph are legal: groups, layouts, tiles, allocations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from stages.recipe.decisions import Allocation, Engine, Group, Lifetime, Recipe
from stages.recipe.kinds import Kind
from stages.recipe.printer import print_group, print_line, print_operator, print_value_name, quoted
from stages.recipe.refusal import refuse
from stages.tensors import LayoutKind

_VIEWS = frozenset({Kind.IDENTITY, Kind.RESHAPE, Kind.SLICE, Kind.CONCAT, Kind.TRANSPOSE})


def verify_coverage(recipe: Recipe) -> None:
    """Groups have names of their own and cover the operators, each once."""
    names: set[str] = set()
    left = {operator.name: operator for operator in recipe.graph.operators}
    for group in recipe.groups:
        line = partial(print_group, group)
        if group.name in names:
            refuse(
                f"two groups are named {quoted(group.name)}",
                line,
                "",
                "give every group its own name",
            )
        names.add(group.name)
        if not group.operators:
            refuse(f"group {quoted(group.name)} is empty", line, "", "remove the group")
        for name in group.operators:
            if left.pop(name, None) is None:
                refuse(
                    f"group {quoted(group.name)} lists {quoted(name)}, which is no operator of the "
                    "graph, or one that a group has already",
                    line,
                    "",
                    "groups cover every operator once",
                )
    for missing in left.values():
        refuse(
            f"operator {quoted(missing.name)} is in no group",
            partial(print_operator, recipe, missing),
            "",
            "groups cover every operator once",
        )


def verify_order(recipe: Recipe) -> None:
    """Groups list the operators in the graph's order."""
    listed = [(name, group) for group in recipe.groups for name in group.operators]
    for (name, group), operator in zip(listed, recipe.graph.operators, strict=True):
        if name != operator.name:
            refuse(
                f"group {quoted(group.name)} lists {quoted(name)} where the graph has "
                f"{quoted(operator.name)}",
                partial(print_group, group),
                "",
                "list the groups, and their operators, in the graph's order",
            )


def verify_views(recipe: Recipe) -> None:
    """A group without engine holds one operator that moves elements and computes nothing."""
    operators = {operator.name: operator for operator in recipe.graph.operators}
    for group in recipe.groups:
        if group.engine is not Engine.NONE:
            continue
        kinds = [operators[name].kind for name in group.operators]
        if len(kinds) != 1 or kinds[0] not in _VIEWS:
            refuse(
                f"group {quoted(group.name)} on {group.engine} holds {', '.join(kinds)}",
                partial(print_group, group),
                str(group.engine),
                f"only one of {', '.join(sorted(_VIEWS))} needs no engine",
            )


def verify_results(recipe: Recipe) -> None:
    """A group on the device has one result that others read."""
    for group, external in _external_results(recipe):
        if group.engine is not Engine.HOST and len(external) != 1:
            refuse(
                f"group {quoted(group.name)} on {group.engine} has {len(external)} results that "
                f"others read: {', '.join(map(print_value_name, external)) or 'none'}",
                partial(print_group, group),
                str(group.engine),
                "a group on the device has one; cut it in two, or run it on the host",
            )


def _external_results(recipe: Recipe) -> Iterator[tuple[Group, list[str]]]:
    """For each group the values that later groups or the caller read."""
    graph = recipe.graph
    home = {name: place for place, group in enumerate(recipe.groups) for name in group.operators}
    maker = {name: home[each.name] for each in graph.operators for name in each.outputs}
    external = set(graph.outputs)
    for operator in graph.operators:
        place = home[operator.name]
        external.update([name for name in operator.inputs if maker.get(name, place) != place])
    by_name = {operator.name: operator for operator in graph.operators}
    for group in recipe.groups:
        results = [name for each in group.operators for name in by_name[each].outputs]
        yield group, [name for name in results if name in external]


def verify_layouts(recipe: Recipe) -> None:
    """Layouts other than row-major need a channel axis and a spatial one, and a legal quantum."""
    for name, layout in recipe.layouts.items():
        type_ = recipe.graph.types[name]
        line = partial(print_line, recipe, name)
        if layout.kind is not LayoutKind.ROW_MAJOR and type_.rank < 3:
            refuse(
                f"{print_value_name(name)} of rank {type_.rank} can't be {layout}",
                line,
                str(layout),
                "only tensors of rank 3 or more have another layout than row_major",
            )
        if layout.quantum < 1:
            refuse(
                f"the layout of {print_value_name(name)} has the quantum {layout.quantum}",
                line,
                str(layout),
                "a quantum is 1 or more",
            )


def verify_tiles(recipe: Recipe) -> None:
    """A tile lies within the result of its group, and its loops are distinct axes of it."""
    for group, external in _external_results(recipe):
        tile = group.tile
        if tile is None or not external:
            continue
        line = partial(print_group, group)
        name, shape = external[0], recipe.graph.types[external[0]].shape
        fits = len(tile.extents) == len(shape) and all(
            1 <= part <= max(whole, 1) for part, whole in zip(tile.extents, shape, strict=True)
        )
        if not fits:
            refuse(
                f"the tile {list(tile.extents)} doesn't lie in {print_value_name(name)}, "
                f"{recipe.graph.types[name]}",
                line,
                "tile",
                "a tile has an extent from 1 up to the result's for each of its axes",
            )
        if len(set(tile.order)) != len(tile.order) or any(
            not 0 <= axis < len(shape) for axis in tile.order
        ):
            refuse(
                f"the order {list(tile.order)} isn't made of distinct axes of "
                f"{print_value_name(name)}",
                line,
                "order",
                "name each axis of the result at most once",
            )
        if tile.slots < 1 or tile.reduction < 0:
            refuse(
                f"a tile with {tile.slots} slots that contracts {tile.reduction} elements",
                line,
                "slots" if tile.slots < 1 else "reduce",
                "slots are 1 or more, the reduction 0 or more",
            )


def verify_allocations(recipe: Recipe) -> None:
    """Allocations cover the life of their values, and none overlap while both are live."""
    spans = _live_spans(recipe)
    for name, place in recipe.allocations.items():
        line = partial(print_line, recipe, name)
        spot = print_value_name(name)
        if place.offset_bytes < 0 or place.size_bytes < 0 or place.start >= place.stop:
            refuse(
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
            refuse(
                f"{spot} is live in groups [{start},{stop}), its allocation in "
                f"[{place.start},{place.stop})",
                line,
                f"live [{place.start},{place.stop})",
                f"let the allocation live in [{start},{stop}) at least",
            )
    _verify_no_overlap(recipe)


def _verify_no_overlap(recipe: Recipe) -> None:
    roots = _view_roots(recipe)
    by_memory: dict[str, list[str]] = defaultdict(list)
    for name, place in recipe.allocations.items():
        by_memory[place.memory].append(name)
    for names in by_memory.values():
        names.sort(key=lambda name: recipe.allocations[name].offset_bytes)
        for number, one in enumerate(names):
            first = recipe.allocations[one]
            for other in names[number + 1 :]:
                second = recipe.allocations[other]
                if second.offset_bytes >= first.offset_bytes + first.size_bytes:
                    break
                if _overlap(first, second) and roots[one] != roots[other]:
                    _refuse_overlap(recipe, one, other)


def _refuse_overlap(recipe: Recipe, one: str, other: str) -> None:
    first, second = recipe.allocations[one], recipe.allocations[other]
    spot = print_value_name(other)
    refuse(
        f"{print_value_name(one)} and {spot} share bytes of {first.memory} in groups "
        f"[{max(first.start, second.start)},{min(first.stop, second.stop)})",
        partial(print_line, recipe, other),
        spot,
        "move one of them",
    )


def _view_roots(recipe: Recipe) -> dict[str, str]:
    """For each value the one whose bytes it shares: views are what groups without engine make. The
    operands of a concatenation without engine lie in its result; the plan's rules prove where."""
    roots = {name: name for name in recipe.graph.types}
    makers = {operator.name: operator for operator in recipe.graph.operators}
    for group in recipe.groups:
        for name in group.operators if group.engine is Engine.NONE else ():
            operator = makers[name]
            if not operator.operands:
                continue
            root = roots[operator.operands[0]]
            roots.update(dict.fromkeys(operator.outputs, root))
            if operator.kind is Kind.CONCAT:
                joined = {roots[value] for value in operator.operands}
                roots.update({value: root for value, one in roots.items() if one in joined})
    return roots


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
    spans = dict.fromkeys((*graph.inputs, *graph.constants), (0, 0))
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
