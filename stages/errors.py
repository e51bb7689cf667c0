"""Errors that a user can act on.

    RecipeError                 what is wrong, the value, where, and the cure
    ├── InputError              a model, a binding, a sample or a path is wrong
    ├── HardwareSpecError       a hardware spec is wrong
    ├── CompileError            the model is sound, but no recipe for this device exists
    │   └── DoesNotFitError     a tensor or tile that no memory can hold
    ├── UndecidedError          a search ended before it had an answer
    ├── PackageError            a package is damaged, or was made for something else
    └── DeviceError             a device can't be reached, or breaks its promise

A failed gate, validation or stress run is an answer, not an error: see `Outcome`.
An `AssertionError` is a bug of ours.
"""

from enum import IntEnum


class Outcome(IntEnum):
    """Exit codes of the `recipe` command: one for each kind of outcome."""

    PASSED = 0
    INTERNAL_ERROR = 1
    BAD_INPUT = 2
    BAD_HARDWARE_SPEC = 3
    COMPILE_REFUSED = 4
    VALIDATION_FAILED = 5
    GATE_FAILED = 6
    STRESS_FAILED = 7
    BAD_PACKAGE = 8
    DEVICE_ERROR = 9
    UNDECIDED = 10
    INTERRUPTED = 130


class RecipeError(Exception):
    """Something the user can mend.

    `problem` says what is wrong and shows the value; `where` names the file, key, operator or
    axis; `hint` is the cure. `str(error)` joins them in the form that every message has:

        PROBLEM
        at: WHERE
        hint: HINT
    """

    outcome: Outcome = Outcome.INTERNAL_ERROR

    def __init__(self, problem: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(problem, where, hint)
        self.problem = problem
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.problem]
        if self.where:
            lines.append(f"at: {self.where}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class InputError(RecipeError):
    """A model, a binding, a sample, an option or a path is wrong."""

    outcome = Outcome.BAD_INPUT


class HardwareSpecError(RecipeError):
    """A hardware spec is wrong."""

    outcome = Outcome.BAD_HARDWARE_SPEC


class CompileError(RecipeError):
    """The model is sound, but no recipe for this device exists."""

    outcome = Outcome.COMPILE_REFUSED


class DoesNotFitError(CompileError):
    """A tensor or tile that no memory of the device can hold."""


class UndecidedError(RecipeError):
    """A search spent its steps before it found an answer or proved that there is none."""

    outcome = Outcome.UNDECIDED


class PackageError(RecipeError):
    """A package is damaged, or was made for something else."""

    outcome = Outcome.BAD_PACKAGE


class DeviceError(RecipeError):
    """A device can't be reached, or breaks its promise of equal runs."""

    outcome = Outcome.DEVICE_ERROR
