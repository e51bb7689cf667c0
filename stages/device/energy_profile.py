"""When in an inference its energy is spent: what tells a pause in the middle from one at the end.

It matters where an inference is longer than the die is fast; shorter ones average out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.plan.timing import Timing

_PIECES = 256


@dataclass(frozen=True, slots=True)
class EnergyProfile:
    """`spent[i]` is the share of the energy that is spent by i/256 of the time."""

    spent: tuple[float, ...]

    def at(self, progress: float) -> float:
        """The share spent by that share of the time, linear between the pieces."""
        place = progress * _PIECES
        index = min(int(place), _PIECES - 1)
        before = self.spent[index]
        return before + (self.spent[index + 1] - before) * (place - index)


def energy_profile(timing: Timing, femtojoules: NDArray[np.int64]) -> EnergyProfile:
    """Each instruction (int64[instructions]) spends its energy evenly over its span."""
    lengths = np.maximum(timing.ends - timing.starts, 1)
    rates = femtojoules / lengths
    times = np.concatenate((timing.starts, timing.starts + lengths))
    order = np.argsort(times, kind="stable")
    slopes = np.concatenate((rates, -rates))[order].cumsum()
    times = times[order]
    spent = np.concatenate(([0.0], (slopes[:-1] * np.diff(times)).cumsum()))
    if spent[-1] <= 0:  # nothing costs energy: any profile is right
        return EnergyProfile(tuple(index / _PIECES for index in range(_PIECES + 1)))
    grid = np.linspace(0, int(timing.total_cycles[0]), _PIECES + 1)
    shares = np.interp(grid, times, spent / spent[-1])
    shares[0], shares[-1] = 0.0, 1.0
    return EnergyProfile(tuple(shares.tolist()))
