"""Recipes as text: one line a value, an operator or a group."""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field

from stages.recipe.decisions import Allocation, Cascade, Group, Recipe, Tile
from stages.recipe.graph import Attribute, Operator
from stages.tensors import Layout, LayoutKind

BARE = re.compile(r"[A-Za-z0-9_.]+")
"""Names that need no quotes."""
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Words and memories that need no quotes."""
RESERVED = frozenset({"inf", "nan"})
_WIDEST_GAP = 24
"""The equal signs of a group are aligned where that takes no more spaces than this."""


def quoted(text: str) -> str:
    """A string in quotes; what doesn't print is escaped as in JSON."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def print_name(name: str) -> str:
    """A name, in quotes where it holds more than letters, digits, `_` and `.`."""
    return name if BARE.fullmatch(name) else quoted(name)


def print_value_name(name: str) -> str:
    """A reference to a value: `%name`, or `_` for an omitted operand."""
    return f"%{print_name(name)}" if name else "_"


def print_attribute(value: Attribute) -> str:
    """An attribute's value; integers, numbers, words and bytes can be told apart."""
    if isinstance(value, tuple):
        return f"[{','.join(print_attribute(item) for item in value)}]"
    if isinstance(value, bytes):
        return f'b64"{b64encode(value).decode()}"'
    if isinstance(value, str):
        is_word = WORD.fullmatch(value) and value not in RESERVED
        return value if is_word else quoted(value)
    if isinstance(value, float):
        return "nan" if math.isnan(value) else float.__repr__(value)
    return str(int(value))


def print_recipe(recipe: Recipe) -> str:
    """The text form; `parse_recipe` reads it back to an equal recipe.

    Operators stand under their group where the groups cut the graph into runs; any other grouping
    (which `verify` refuses) lists the operators of a group by name after `of`.
    """
    graph, target = recipe.graph, recipe.target
    lines = [
        f"recipe {print_name(graph.name)} for {print_name(target.hardware)}"
        f" {print_name(target.version)}"
    ]
    lines += [f"note {quoted(note)}" for note in recipe.notes]
    lines += [print_cascade(cascade) for cascade in recipe.cascades]
    lines += [print_line(recipe, name, "input") for name in graph.inputs]
    lines += [print_line(recipe, name, "const") for name in graph.constants]
    lines += [print_line(recipe, name) for name in _strays(recipe)]
    runs = _runs(recipe)
    if runs is None:
        lines += _operator_lines(recipe, graph.operators, "")
        lines += [f"{print_group(group)} of {_names(group.operators)}" for group in recipe.groups]
    else:
        for run in runs:
            if run.group is not None:
                lines.append(print_group(run.group))
            indent = "" if run.group is None else "  "
            lines += _operator_lines(recipe, run.operators, indent)
    lines += [f"output {print_value_name(name)}" for name in graph.outputs]
    return "\n".join(lines) + "\n"


def print_value(recipe: Recipe, name: str) -> str:
    """A value with its type, layout (unless row-major) and place in memory (where it has one)."""
    type_ = recipe.graph.types.get(name)
    text = f"{print_value_name(name)} : {type_ if type_ is not None else '?'}"
    if name in recipe.layouts:
        text += f" {print_layout(recipe.layouts[name])}"
    if name in recipe.allocations:
        text += f" {print_allocation(recipe.allocations[name])}"
    return text


def print_line(recipe: Recipe, name: str, keyword: str = "value") -> str:
    """The line that says what a value is: `input`, `const` or `value`."""
    return f"{keyword} {print_value(recipe, name)}"


def print_layout(layout: Layout) -> str:
    """A layout, with its quantum where it has one."""
    has_quantum = layout.kind is LayoutKind.NC1HWC2 or layout.quantum != 1
    return f"{layout.kind}/{layout.quantum}" if has_quantum else str(layout.kind)


def print_allocation(allocation: Allocation) -> str:
    """Where a value lies, for example `at sram+0x0400 size 36864 scoped live [3,5)`."""
    memory = allocation.memory
    place = memory if WORD.fullmatch(memory) else quoted(memory)
    offset = allocation.offset_bytes
    sign = "+" if offset >= 0 else "-"
    return (
        f"at {place}{sign}0x{abs(offset):04x} size {allocation.size_bytes} {allocation.lifetime}"
        f" live [{allocation.start},{allocation.stop})"
    )


def print_operator(recipe: Recipe, operator: Operator) -> str:
    """An operator on one line; its name follows unless it is that of its first result."""
    left, right = _halves(recipe, operator)
    return f"{left} = {right}{_comment(operator)}"


def print_group(group: Group) -> str:
    """The line above a group's operators."""
    text = f"group {print_name(group.name)} on {group.engine}"
    if group.tile is not None:
        text += f" {print_tile(group.tile)}"
    if group.reason:
        text += f" because {quoted(group.reason)}"
    return text


def print_cascade(cascade: Cascade) -> str:
    """A cascade, for example `cascade axis 2 stripe 14 of conv_1, conv_2`."""
    names = _names(cascade.groups)
    return f"cascade axis {cascade.axis} stripe {cascade.stripe} of {names}"


def print_tile(tile: Tile) -> str:
    """A tile, for example `tile [1,16,12,96] reduce 27 order [1,2,3] slots 2`."""
    return (
        f"tile {_integers(tile.extents)} reduce {tile.reduction}"
        f" order {_integers(tile.order)} slots {tile.slots}"
    )


@dataclass(slots=True)
class _Run:
    group: Group | None
    operators: list[Operator] = field(default_factory=list)


def _runs(recipe: Recipe) -> list[_Run] | None:
    """Operators in graph order under their groups in group order; None where that can't be."""
    operators = recipe.graph.operators
    place = {operator.name: index for index, operator in enumerate(operators)}
    if len(place) != len(operators):
        return None
    runs: list[_Run] = []
    done = 0
    for group in recipe.groups:
        start = place.get(group.operators[0], -1) if group.operators else done
        stop = start + len(group.operators)
        names = tuple(operator.name for operator in operators[start:stop])
        if start < done or names != group.operators:
            return None
        if start > done:
            runs.append(_Run(None, list(operators[done:start])))
        runs.append(_Run(group, list(operators[start:stop])))
        done = stop
    if done < len(operators):
        runs.append(_Run(None, list(operators[done:])))
    return runs


def _operator_lines(
    recipe: Recipe, operators: list[Operator] | tuple[Operator, ...], indent: str
) -> Iterator[str]:
    halves = [_halves(recipe, operator) for operator in operators]
    widths = [len(left) for left, _ in halves]
    widest, narrowest = max(widths, default=0), min(widths, default=0)
    width = widest if widest - narrowest <= _WIDEST_GAP else 0
    for operator, (left, right) in zip(operators, halves, strict=True):
        yield f"{indent}{left.ljust(width)} = {right}{_comment(operator)}"


def _halves(recipe: Recipe, operator: Operator) -> tuple[str, str]:
    left = ", ".join(print_value(recipe, name) for name in operator.outputs) or "()"
    operands = ", ".join(print_value_name(name) for name in operator.inputs)
    right = f"{operator.kind}({operands})"
    if operator.attributes:
        pairs = (
            f"{key if WORD.fullmatch(key) else quoted(key)}={print_attribute(value)}"
            for key, value in sorted(operator.attributes.items())
        )
        right += f" {{{', '.join(pairs)}}}"
    return left, right


def _comment(operator: Operator) -> str:
    if operator.outputs and operator.name == operator.outputs[0]:
        return ""
    return f"  # {print_name(operator.name)}"


def _strays(recipe: Recipe) -> list[str]:
    """Values that something says something about, but that nothing defines."""
    graph = recipe.graph
    defined = {*graph.inputs, *graph.constants}
    defined.update(name for operator in graph.operators for name in operator.outputs)
    said = {**graph.types, **recipe.layouts, **recipe.allocations}
    return [name for name in said if name not in defined]


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(print_name(name) for name in names) or "()"


def _integers(values: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, values))}]"
