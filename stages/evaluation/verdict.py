"""Verdicts: answers, not errors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a judging stage says."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"  # what was measured can't be compared
    NEW = "NEW"  # the gate alone: nothing to compare with yet


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: `figure` against `limit`, in words with their units.

    `message` says what failed and how to cure it; it is empty where the check passed.
    """

    name: str
    passed: bool
    figure: str
    limit: str = ""
    message: str = ""


def verdict_of(checks: tuple[Check, ...]) -> Verdict:
    """FAIL if any check failed."""
    return Verdict.PASS if all(check.passed for check in checks) else Verdict.FAIL
