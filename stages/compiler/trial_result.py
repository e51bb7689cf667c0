"""What compiling a part of a graph by itself came to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trial:
    """The cycles of a part's plan, the host's included, and how many operators are the host's."""

    cycles: int
    host_operators: int
