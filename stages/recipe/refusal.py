"""The error of an illegal recipe: the line, and marks below it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from stages.errors import RecipeError

_WIDEST_MARKS = 60
_LONG_BYTES = re.compile(r'(b64"[^"]{24})[^"]+"')


class IllegalRecipeError(RecipeError):
    """A recipe breaks a rule. `where` holds its line, and points below it at the place.

    After a pass it is a bug of the compiler's; whoever reads a recipe that a person edited says so
    to that person.
    """


def refuse(
    problem: str, print_line: Callable[[], str], spot: str, hint: str, after: str = ""
) -> NoReturn:
    """Refuse a recipe at a spot of one of its lines; an empty spot means the whole line.

    The line is printed only here: printing every line would cost more than checking it. `after` is
    a text behind which the spot is looked for. Bytes are cut short: a host call holds whole nodes.

    Raises:
        IllegalRecipeError: always.
    """
    line = _LONG_BYTES.sub(r'\1..."', print_line())
    begin = max(line.find(after), 0) if after else 0
    boundary = r"(?![\w.])" if spot and (spot[-1].isalnum() or spot[-1] == "_") else ""
    found = re.compile(re.escape(spot) + boundary).search(line, begin) if spot else None
    start, width = (found.start(), len(spot)) if found else (0, min(len(line), _WIDEST_MARKS))
    marks = " " * start + "^" * max(width, 1)
    raise IllegalRecipeError(problem, where=f"{line}\n    {marks} {problem}", hint=hint)
