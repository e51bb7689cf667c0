"""Whether a recipe is legal; where it isn't, the error shows its line and points at the place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from stages.recipe.decisions import Recipe, Target
from stages.recipe.graph import Graph, Operator
from stages.recipe.operators import TABLE, IllegalOperatorError, agrees, infer
from stages.recipe.printer import print_line, print_operator, print_value_name, quoted
from stages.recipe.refusal import IllegalRecipeError, refuse
from stages.recipe.verify_cascades import verify_cascades
from stages.recipe.verify_decisions import (
    verify_allocations,
    verify_coverage,
    verify_layouts,
    verify_order,
    verify_results,
    verify_tiles,
    verify_views,
)
from stages.tensors import Array, TensorType

__all__ = ["IllegalRecipeError", "Verified", "verify", "verify_draft", "verify_graph"]


Verified = dict[int, tuple[Operator, list[TensorType | None]]]
"""Operators found legal, by identity, with the types of their operands and results then."""


def verify(
    recipe: Recipe,
    constants: Mapping[str, Array] | None = None,
    verified: Verified | None = None,
) -> None:
    """Check a recipe: the graph, then the decisions about it; the first broken rule is reported.

    `constants`, where given, must hold an array of the declared type for every constant.
    `verified`, where given, is filled with operators, and spares those that are unchanged in it.

    Raises:
        IllegalRecipeError: with the line of the operator, group or value.
    """
    verify_draft(recipe, constants, verified)
    verify_order(recipe)
    verify_cascades(recipe)
    verify_allocations(recipe)


def verify_draft(
    recipe: Recipe,
    constants: Mapping[str, Array] | None = None,
    verified: Verified | None = None,
) -> None:
    """Check a recipe in the making: its groups may lie in another order than the graph's, and
    nothing has a place in memory yet.

    Raises:
        IllegalRecipeError: with the line of the operator, group or value.
    """
    _verify_graph(recipe, constants, {} if verified is None else verified)
    verify_coverage(recipe)
    verify_results(recipe)
    verify_views(recipe)
    verify_layouts(recipe)
    verify_tiles(recipe)


def verify_graph(graph: Graph, constants: Mapping[str, Array] | None = None) -> None:
    """Check a graph that no decision has been made about.

    Raises:
        IllegalRecipeError: with the line of the operator or value.
    """
    _verify_graph(Recipe(graph, Target("none", "0"), ()), constants, {})


def _verify_graph(
    recipe: Recipe, constants: Mapping[str, Array] | None, verified: Verified
) -> None:
    _verify_values(recipe)
    if constants is not None:
        _verify_constants(recipe, constants)
    types = recipe.graph.types
    for operator in recipe.graph.operators:
        held = [types[name] if name else None for name in (*operator.inputs, *operator.outputs)]
        known = verified.get(id(operator))
        if known is None or known[0] is not operator or known[1] != held:
            _verify_operator(recipe, operator)
            verified[id(operator)] = operator, held


def _verify_values(recipe: Recipe) -> None:
    """Each value has one definition, before its first use, and a type."""
    graph = recipe.graph
    seen: set[str] = set()
    for keyword, names in (("input", graph.inputs), ("const", graph.constants)):
        for name in names:
            _define(recipe, name, seen, partial(print_line, recipe, name, keyword))
    labels: set[str] = set()
    for operator in graph.operators:
        line = partial(print_operator, recipe, operator)
        if operator.name in labels:
            refuse(
                f"two operators are named {quoted(operator.name)}",
                line,
                "",
                "give every operator its own name",
            )
        labels.add(operator.name)
        for name in operator.operands:
            if name not in seen:
                refuse(
                    f"operand {print_value_name(name)} isn't defined before it is read",
                    line,
                    print_value_name(name),
                    "define it as an input, a constant, or the result of an earlier operator",
                    after=" = ",
                )
        for name in operator.outputs:
            _define(recipe, name, seen, line)
    _verify_mentions(recipe, seen)


def _verify_mentions(recipe: Recipe, seen: set[str]) -> None:
    """Outputs, types, layouts and allocations are those of values that something defines."""
    graph = recipe.graph
    for name in graph.outputs:
        if name not in seen:
            spot = print_value_name(name)
            refuse(
                f"output {spot} isn't defined",
                partial("output {}".format, spot),
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
                refuse(
                    f"{spot} has a {what}, but nothing defines it",
                    partial(print_line, recipe, name),
                    spot,
                    f"remove the {what}, or define the value",
                )


def _define(recipe: Recipe, name: str, seen: set[str], line: Callable[[], str]) -> None:
    if not name:
        return
    if name in seen or name not in recipe.graph.types:
        spot = print_value_name(name)
        if name in seen:
            refuse(f"{spot} is defined twice", line, spot, "give every value its own name")
        refuse(f"{spot} has no type", line, spot, "declare the type of every value")
    seen.add(name)


def _verify_constants(recipe: Recipe, constants: Mapping[str, Array]) -> None:
    """Each constant has data of its declared type."""
    for name in recipe.graph.constants:
        line = partial(print_line, recipe, name, "const")
        if name not in constants:
            spot = print_value_name(name)
            refuse(f"the data of {spot} is missing", line, spot, "give an array for every constant")
        array, declared = constants[name], recipe.graph.types[name]
        if array.dtype != declared.dtype.numpy or array.shape != declared.shape:
            refuse(
                f"the data of {print_value_name(name)} is {array.dtype}{list(array.shape)}",
                line,
                str(declared),
                "declare the type that the data has",
            )


def _verify_operator(recipe: Recipe, operator: Operator) -> None:
    """Operands, attributes and result types agree with the operator table."""
    types = recipe.graph.types
    line = partial(print_operator, recipe, operator)
    operands = [types[name] if name else None for name in operator.inputs]
    declared = [types[name] for name in operator.outputs if name]
    row = TABLE[operator.kind]
    if not operator.outputs or len(operator.outputs) > row.most_results:
        refuse(
            f"{operator.kind} has {len(operator.outputs)} results",
            line,
            "",
            "it has one" if row.most_results == 1 else "it has one or more",
        )
    if "" in operator.outputs:
        refuse(f"a result of {operator.kind} has no name", line, "_ :", "give every result a name")
    try:
        inferred = infer(operator, operands, declared)
    except IllegalOperatorError as error:
        refuse(error.problem, line, f"{error.spot}=" if error.spot else "", error.hint)
        return
    if len(inferred) != len(declared):
        refuse(
            f"{operator.kind} makes {len(inferred)} results, {len(declared)} are named",
            line,
            "",
            "name every result",
        )
    for name, mine, right in zip(operator.outputs, declared, inferred, strict=True):
        if not agrees(mine, right):
            refuse(
                f"{print_value_name(name)} is declared as {mine}, {operator.kind} makes {right}",
                line,
                str(mine),
                f"declare it as {right}",
            )
