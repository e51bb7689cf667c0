"""Timed runs: latencies, and how warm it was."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class HeatLedger:
    """Where the heat of a session went, in joules: supplied = stored + released.

    `supplied_joules` is dynamic, idle and leakage power over time; `stored_joules` warmed the
    stages (negative where they cooled), `released_joules` went to the air.
    """

    supplied_joules: float
    stored_joules: float
    released_joules: float


@dataclass(frozen=True, slots=True)
class HeatHistory:
    """How warm each run was: the die at the run's end, and the slowest clock in it (the nominal
    clock over that one: 1 is full speed).

    `start_celsius` is the idle die before the first run, `peak_celsius` the warmest that it was,
    within runs and in the warm-up too; `unthrottled_ns` are the latencies of as
    many runs under the same weather at the nominal clock. `shutdown_run` is the number of runs
    after which the die was critical and the device went off.
    """

    junction_celsius: NDArray[np.float64]
    clock_dividers: NDArray[np.float64]
    ambient_celsius: float
    start_celsius: float
    peak_celsius: float
    unthrottled_ns: NDArray[np.int64]
    ledger: HeatLedger
    shutdown_run: int | None = None


@dataclass(frozen=True, slots=True)
class Samples:
    """`latencies_ns` (int64[runs]) of timed runs, after the warm-up; `heat` where it is known."""

    latencies_ns: NDArray[np.int64]
    heat: HeatHistory | None = None
