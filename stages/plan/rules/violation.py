"""What a rule says when a plan breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stages.plan.instructions import Buffer, Region
from stages.plan.syntax import print_name

if TYPE_CHECKING:
    from stages.plan.rules.facts import Facts


@dataclass(frozen=True, slots=True)
class Violation:
    """One breach of one rule. `instruction` is its number in program order, if it has one.

    Prints as every message does: the rule and what is wrong, then the cure.
    """

    rule: str
    message: str
    hint: str
    instruction: int | None

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}\nhint: {self.hint}"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule's function yields: a violation whose rule is the function's own."""

    message: str
    hint: str
    instruction: int | None = None


Findings = Iterator[Finding]
Rule = Callable[["Facts"], Findings]
"""A rule: its name says what is looked at, its docstring is its page in `docs/plan-rules.md`."""


def rule_name(rule: Rule) -> str:
    """The name that messages begin with: `plan-overlap` for the function `overlap`."""
    return f"plan-{rule.__name__.replace('_', '-')}"


def say_region(region: Region) -> str:
    """A region's place and type, short."""
    return f"{region.memory}+{region.address:#06x} {region.dtype}[{_extents(region)}]"


def _extents(region: Region) -> str:
    return ",".join(map(str, region.shape))


def say_range(start: int, stop: int) -> str:
    """A half-open range of addresses."""
    return f"[{start:#06x}, {stop:#06x})"


def say_buffer(buffer: Buffer) -> str:
    """A buffer's name and addresses."""
    stop = buffer.address + buffer.size_bytes
    return f"%{print_name(buffer.name)} {say_range(buffer.address, stop)}"
