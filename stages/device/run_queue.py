"""Inferences back to back, in nanoseconds: where the queue stands after a time at some clock.

It moves by any length of time at the cost of one binary search, however many runs pass, because
the latencies of a clock repeat after `len(bank)` runs and their sums are known.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from stages.device.energy_profile import EnergyProfile
from stages.units import ceil_div


@dataclass(slots=True)
class Bank:
    """Latencies of one clock level: of run r it is `latencies[r % len(latencies)]`."""

    latencies: list[int]
    starts: list[int]  # when each would start, had the first started at 0; the last is the sum

    @staticmethod
    def of(latencies_ns: NDArray[np.int64]) -> Bank:
        """The bank of these latencies."""
        latencies = latencies_ns.tolist()
        return Bank(latencies, [0, *accumulate(latencies)])


@dataclass(slots=True)
class Interrupted:
    """A run during which the level changed: how long it took, and its deepest level."""

    latency_ns: int
    level: int


class RunQueue:
    """The run in progress, how much of it is left, and the level of every run so far."""

    def __init__(self, bank: Bank, level: int, profile: EnergyProfile | None = None) -> None:
        self._bank = bank
        self._profile = profile
        self._level = level
        self.run = 0
        self._left_ns = bank.latencies[0]
        self._share = 1.0  # of the run in progress that is left
        self._elapsed_ns = 0
        self.interrupted: dict[int, Interrupted] = {}
        self.level_starts = [0]  # the first run that is wholly at ...
        self.levels = [level]  # ... this level

    def advance(self, duration_ns: int) -> float:
        """Let time pass; how many inferences' worth of energy was spent. Within a run that follows
        the profile, or time where there is none."""
        left = self._left_ns
        if duration_ns < left:
            begun = self._spent()
            self._left_ns = left - duration_ns
            self._share -= self._share * duration_ns / left
            self._elapsed_ns += duration_ns
            return self._spent() - begun
        bank = self._bank
        latencies, starts = bank.latencies, bank.starts
        first = (self.run + 1) % len(latencies)
        target = starts[first] + duration_ns - left
        cycles, into = divmod(target, starts[-1])
        index = bisect_right(starts, into) - 1
        whole = cycles * len(latencies) + index - first
        into -= starts[index]
        latency = latencies[index]
        spent = 1.0 - self._spent() + whole
        self.run += 1 + whole
        self._left_ns = latency - into
        self._share = self._left_ns / latency
        self._elapsed_ns = into
        return spent + self._spent()

    def _spent(self) -> float:
        """The share of the energy of the run in progress that is spent."""
        done = 1.0 - self._share
        return done if self._profile is None else self._profile.at(done)

    def change(self, bank: Bank, level: int) -> None:
        """Go on at another level: what is left of the run in progress scales with the ratio of
        its latencies at the two, rounded up."""
        index = self.run % len(bank.latencies)
        before, after = self._bank.latencies[index], bank.latencies[index]
        self._left_ns = ceil_div(self._left_ns * after, before)
        first = self.run
        if self._elapsed_ns:
            first += 1
            known = self.interrupted.get(self.run)
            deepest = max(level, self._level, known.level if known else 0)
            self.interrupted[self.run] = Interrupted(self._elapsed_ns + self._left_ns, deepest)
        if self.level_starts[-1] == first:
            self.levels[-1] = level
        else:
            self.level_starts.append(first)
            self.levels.append(level)
        self._bank, self._level = bank, level
