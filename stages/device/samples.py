"""Timed runs: latencies, and how warm it was."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class HeatHistory:
    """How warm each run was: the die at the run's end, and the slowest clock divider in it.

    `shutdown_run` is the number of runs after which the die was critical and the device went off.
    """

    junction_celsius: NDArray[np.float64]
    clock_dividers: NDArray[np.int64]
    ambient_celsius: float
    shutdown_run: int | None = None


@dataclass(frozen=True, slots=True)
class Samples:
    """`latencies_ns` (int64[runs]) of timed runs, after the warm-up; `heat` where it is known."""

    latencies_ns: NDArray[np.int64]
    heat: HeatHistory | None = None
