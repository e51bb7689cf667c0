"""Exit codes in words, the order of their gravity, and how an error is shown."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable

from stages.errors import Outcome, RecipeError

BUG_LINE = "error: this is a bug of the recipe pipeline, not of your input"

MEANINGS = {
    Outcome.PASSED: "everything passed",
    Outcome.INTERNAL_ERROR: "internal error: a bug of ours",
    Outcome.BAD_INPUT: "bad input: a model, binding, sample, option or path",
    Outcome.BAD_HARDWARE_SPEC: "a hardware spec is wrong",
    Outcome.COMPILE_REFUSED: "no recipe exists for this model on this device, or no room for it",
    Outcome.VALIDATION_FAILED: "validation failed",
    Outcome.GATE_FAILED: "gate failed: slower than the baseline allows, or a fusion lost",
    Outcome.STRESS_FAILED: "stress failed: too slow when hot",
    Outcome.BAD_PACKAGE: "a package is damaged, or was made for something else",
    Outcome.DEVICE_ERROR: "a device can't be reached, or two equal runs differ",
    Outcome.UNDECIDED: "a search ended before it had an answer",
    Outcome.INTERRUPTED: "interrupted",
}

GRAVITY = (
    Outcome.INTERRUPTED,
    Outcome.INTERNAL_ERROR,
    Outcome.BAD_INPUT,
    Outcome.BAD_HARDWARE_SPEC,
    Outcome.BAD_PACKAGE,
    Outcome.DEVICE_ERROR,
    Outcome.UNDECIDED,
    Outcome.COMPILE_REFUSED,
    Outcome.VALIDATION_FAILED,
    Outcome.GATE_FAILED,
    Outcome.STRESS_FAILED,
    Outcome.PASSED,
)
"""Worst first: what isn't known at all weighs more than what is known to be bad."""


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The gravest of several outcomes; PASSED where there are none."""
    return min(outcomes, key=GRAVITY.index, default=Outcome.PASSED)


def exit_code_lines() -> list[str]:
    """One line for each exit code, as `recipe --help` prints them."""
    return [f"{outcome.value:>3}  {MEANINGS[outcome]}" for outcome in Outcome]


def printable(text: str) -> str:
    """The text with control characters shown as escapes, so that a name can't drive a terminal."""
    return "".join(
        character
        if character.isprintable() or character == "\n"
        else character.encode("unicode_escape").decode()
        for character in text
    )


def report_error(error: RecipeError) -> Outcome:
    """Prints what is wrong, where and the cure to stderr; gives the exit code."""
    print(printable(f"error: {error}"), file=sys.stderr)
    return error.outcome


def report_bug(error: BaseException) -> Outcome:
    """Prints the traceback of an error that no input should cause; gives the exit code."""
    traceback.print_exception(error, file=sys.stderr)
    print(
        f"{BUG_LINE}\nhint: report it with the lines above and the command that you ran",
        file=sys.stderr,
    )
    return Outcome.INTERNAL_ERROR
