"""What a session recorded, step by step, and the samples that come of it."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stages.device.clocks import ClockLevel
from stages.device.run_queue import RunQueue
from stages.device.samples import HeatLedger
from stages.device.thermal import NS_PER_SECOND, Chain, Modes

_RUNS_AT_ONCE = 1 << 18  # bounds the memory of one pass over all runs


@dataclass(slots=True)
class History:
    """The state at the start of each step, its mean power and its end."""

    modes: array[float] = field(default_factory=lambda: array("d"))
    watts: array[float] = field(default_factory=lambda: array("d"))
    ends_ns: array[int] = field(default_factory=lambda: array("q"))

    def add(self, modes: Modes, watts: float, end_ns: int) -> None:
        """One step more."""
        self.modes.extend(modes)
        self.watts.append(watts)
        self.ends_ns.append(end_ns)

    def _columns(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        watts = np.frombuffer(self.watts, dtype=np.float64)
        modes = np.frombuffer(self.modes, dtype=np.float64).reshape(watts.size, -1)
        return modes, watts, np.frombuffer(self.ends_ns, dtype=np.int64)

    def ledger(self, chain: Chain, final: Modes) -> HeatLedger:
        """Heat put in, stored, and released to the air."""
        modes, watts, ends = self._columns()
        seconds = np.diff(ends, prepend=0) / NS_PER_SECOND
        warmed = chain.rises_of(final) - chain.rises_of(modes[0])
        return HeatLedger(
            supplied_joules=float(watts @ seconds),
            stored_joules=float(chain.capacities @ warmed),
            released_joules=chain.released_joules(modes, watts, seconds),
        )

    def warmest_rise(self, chain: Chain) -> float:
        """The die's largest rise over the air at the start of a step."""
        modes, _, _ = self._columns()
        return float((modes @ np.array(chain.die_weights)).max())

    def junction_rises(self, chain: Chain, times_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """The die's rise over the air (float64[times]) at these times, in ascending order."""
        rises = np.empty(times_ns.size, dtype=np.float64)
        modes, watts, ends = self._columns()
        weights = np.array(chain.die_weights)
        for first in range(0, times_ns.size, _RUNS_AT_ONCE):
            part = slice(first, first + _RUNS_AT_ONCE)
            times = times_ns[part]
            step = np.searchsorted(ends, times, side="left")
            begun = np.where(step > 0, ends[step - 1], 0)
            settled = watts[step][:, None] * chain.per_watt
            decays = np.exp(-chain.rates * ((times - begun) / NS_PER_SECOND)[:, None])
            rises[part] = (settled + (modes[step] - settled) * decays) @ weights
        return rises


def latencies_of(
    queue: RunQueue, runs: int, banks: Mapping[int, NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
    """Latencies (int64[runs]) and deepest levels (int16[runs]) of the queue's first runs."""
    starts = np.minimum(np.array([*queue.level_starts, runs], dtype=np.int64), runs)
    levels = np.repeat(np.array(queue.levels, dtype=np.int16), np.diff(starts))
    latencies = np.empty(runs, dtype=np.int64)
    for level, bank in banks.items():
        there = np.flatnonzero(levels == level)
        latencies[there] = bank[there % bank.size]
    for run, piece in queue.interrupted.items():
        if run < runs:
            latencies[run], levels[run] = piece.latency_ns, piece.level
    return latencies, levels


def dividers_of(
    levels: NDArray[np.int16], clock_levels: Sequence[ClockLevel]
) -> NDArray[np.float64]:
    """The nominal clock over that of each level."""
    slowdowns = np.array([float(level.slowdown) for level in clock_levels])
    return np.asarray(slowdowns[levels])
