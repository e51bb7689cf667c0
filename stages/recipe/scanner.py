"""A cursor over one line of a recipe's text; its errors point at the place."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from typing import NoReturn, TypeVar

from stages.errors import InputError
from stages.recipe.printer import BARE, WORD

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_INTEGER = re.compile(r"-?\d+(?![.\w])")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_SPACE = re.compile(r"[ \t]*")

Option = TypeVar("Option", bound=StrEnum)


@dataclass(slots=True)
class Scanner:
    """A line, its number (from 1) and how far it is read."""

    line: str
    number: int
    place: int = 0

    def fail(self, problem: str, hint: str, place: int | None = None) -> NoReturn:
        """Refuse the line.

        Raises:
            InputError: always; it shows line, column and the line itself.
        """
        column = self.ahead() if place is None else place
        raise InputError(
            problem,
            where=f"line {self.number}, column {column + 1}\n  {self.line}\n  {' ' * column}^",
            hint=hint,
        )

    def match(self, pattern: re.Pattern[str]) -> str | None:
        """The text that a pattern matches here, spaces before it skipped; None where it doesn't."""
        start = self.ahead()
        found = pattern.match(self.line, start)
        if found is None:
            return None
        self.place = found.end()
        return found.group()

    def expect(self, pattern: re.Pattern[str], what: str, hint: str) -> str:
        """The text that a pattern matches here, or a refusal."""
        text = self.match(pattern)
        if text is None:
            self.fail(f"{what} is missing here", hint, self.ahead())
        return text

    def accept(self, literal: str) -> bool:
        """Read a punctuation mark or a whole word, if it comes next."""
        start = self.ahead()
        stop = start + len(literal)
        is_word = literal[-1].isalnum()
        if not self.line.startswith(literal, start):
            return False
        if is_word and BARE.match(self.line, stop):
            return False
        self.place = stop
        return True

    def literal(self, literal: str, hint: str) -> None:
        """Read a punctuation mark or a word that must come next."""
        if not self.accept(literal):
            self.fail(f"`{literal}` is missing here", hint, self.ahead())

    def string(self) -> str | None:
        """A quoted string, if one comes next."""
        start = self.ahead()
        text = self.match(_STRING)
        if text is None:
            return None
        try:
            value = json.loads(text, strict=False)
        except json.JSONDecodeError:
            self.fail("a string holds an unknown escape", "escape as in JSON", start)
        assert isinstance(value, str)
        return value

    def name(self, what: str) -> str:
        """A bare or quoted name."""
        text = self.string()
        if text is not None:
            return text
        return self.expect(
            BARE, what, "a name is letters, digits, `_` and `.`, or anything in double quotes"
        )

    def value_name(self) -> str | None:
        """`%name`, or `_` for an omitted operand, if one comes next."""
        if self.accept("%"):
            return self.name("the name of a value")
        return "" if self.accept("_") else None

    def integer(self, what: str) -> int:
        """A decimal integer."""
        return int(self.expect(_INTEGER, what, "write a whole number"))

    def hexadecimal(self, what: str) -> int:
        """A number written as 0x400."""
        return int(self.expect(_HEX, what, "write an offset as 0x0400"), 16)

    def integers(self, what: str) -> tuple[int, ...]:
        """A list such as [1,2,3]."""
        self.literal("[", f"{what} is a list such as [1,2,3]")
        values: list[int] = []
        if self.accept("]"):
            return ()
        while True:
            values.append(self.integer("a number"))
            if self.accept("]"):
                return tuple(values)
            self.literal(",", "numbers of a list are parted by commas, and `]` ends it")

    def option(self, options: type[Option], what: str) -> Option:
        """A word that is one of an enumeration's."""
        start = self.ahead()
        every = _every(options)
        word = self.expect(WORD, what, every)
        try:
            return options(word)
        except ValueError:
            near = get_close_matches(word, [option.value for option in options], n=1)
        hint = f"did you mean {near[0]}?" if near else every
        self.fail(f"`{word}` isn't {what}", hint, start)

    def end(self) -> None:
        """Nothing but a comment may follow."""
        start = self.ahead()
        if start < len(self.line) and self.line[start] != "#":
            self.fail(
                "the line should end here", "remove what follows, or put a # before it", start
            )

    def ahead(self) -> int:
        """The place of the next character that isn't a space."""
        if self.line[self.place : self.place + 1] > " ":
            return self.place  # most often: half the time of a match that finds nothing
        found = _SPACE.match(self.line, self.place)
        assert found is not None
        return found.end()


@cache
def _every(options: type[StrEnum]) -> str:
    """A hint that names all words of an enumeration."""
    return f"it is one of: {', '.join(option.value for option in options)}"
