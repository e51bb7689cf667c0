"""Ways to weave a program, and what a schedule gives.

An order that saves more transfers leaves less room for loads ahead of their time, and which of the
two counts depends on a model's tiles. Which attempt is the best is found out on a stretch of a
program (`woven_tiles.py`); the whole of it is woven in the first that finds room.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stages.compiler.emit.program import Written
from stages.compiler.schedule.clock import Clock
from stages.compiler.schedule.dependencies import Dependencies
from stages.compiler.schedule.ordering import Ordering


class Freedom(Enum):
    """What may change places: the steps of all groups, or those of different groups only, which
    needs less room."""

    STEPS = "steps"
    GROUPS = "groups"


@dataclass(frozen=True, slots=True)
class Attempt:
    """An order, and tenths of the SRAM that its buffers may take at once so that values are held,
    and so that single loads are saved; what is left is for loads ahead of time, and for gaps."""

    freedom: Freedom
    held: int
    loaded: int


ATTEMPTS = (
    Attempt(Freedom.STEPS, 8, 7),
    Attempt(Freedom.STEPS, 6, 6),
    Attempt(Freedom.STEPS, 6, 5),
    Attempt(Freedom.GROUPS, 7, 7),
    Attempt(Freedom.STEPS, 0, 6),
    Attempt(Freedom.GROUPS, 0, 5),
)
"""In the order in which they are made where nothing is known of a program."""


@dataclass(frozen=True, slots=True)
class ScheduledProgram:
    """A program in some order, what it must keep, and how a list schedule runs it."""

    written: list[Written]
    found: Dependencies
    clock: Clock
    ordering: Ordering
