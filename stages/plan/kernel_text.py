"""The text form of kernels: operators as recipes print them, under the kernel's name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stages.errors import InputError
from stages.plan.instructions import Kernel
from stages.plan.syntax import PlanTextError, print_name
from stages.recipe.decisions import Recipe, Target
from stages.recipe.graph import Graph
from stages.recipe.text import parse_recipe, print_recipe

Line = tuple[int, str]
"""A line and its number in the text, from 1."""

_NOWHERE = Target("kernel", "0")


def print_kernel(index: int, kernel: Kernel) -> Iterator[str]:
    """The lines of one kernel: its number and name, then parameters, operators and results."""
    graph = Graph(
        kernel.name, kernel.parameters, kernel.results, (), kernel.types, kernel.operators
    )
    yield f"kernel {index} {print_name(kernel.name)}"
    _, *body = print_recipe(Recipe(graph, _NOWHERE, ())).splitlines()
    yield from (f"  {line}" for line in body)


def read_kernel(index: int, lines: Sequence[Line]) -> Kernel:
    """The kernel that `print_kernel` printed.

    Raises:
        PlanTextError: it has another number, or isn't a kernel at all.
        InputError: an operator isn't in the form; the error shows it with its line number.
    """
    number, head = lines[0]
    start = f"kernel {index} "
    if not head.startswith(start):
        raise PlanTextError(f"kernel {index} was expected: they're numbered", number, head)
    title = f"recipe {head[len(start) :]} for {_NOWHERE.hardware} {_NOWHERE.version}"
    text = "\n".join([title, *(line[2:] for _, line in lines[1:])])
    try:
        recipe = parse_recipe(text)
    except InputError:
        return _read_at(number, text)
    return _kernel(recipe)


def _read_at(number: int, text: str) -> Kernel:
    """Reads again, below as many empty lines as make the error's line number right."""
    return _kernel(parse_recipe("\n" * (number - 1) + text))


def _kernel(recipe: Recipe) -> Kernel:
    graph = recipe.graph
    return Kernel(graph.name, graph.inputs, graph.outputs, graph.operators, dict(graph.types))
