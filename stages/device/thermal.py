"""Heat: a chain of RC stages from the die to the air.

Stage i holds heat C_i and passes it outwards over R_i; the last one's R leads to the air (a Cauer
ladder, as in JEDEC JESD51-14):

    C_i dT_i/dt = (T_{i-1} - T_i)/R_{i-1} - (T_i - T_{i+1})/R_i,    power enters at the die (i = 0)

Over a step with constant power the solution is exact: in the eigenvectors of the symmetric form
C^-1/2 K C^-1/2 each mode decays to its steady value at its own rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stages.hardware.spec import ThermalStage

NS_PER_SECOND = 1e9
_MOST_KNOWN_STEPS = 4096
Temperatures = NDArray[np.float64]
Modes = list[float]
"""A state: how far each mode is from the air's temperature, scaled by its heat capacity."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a step of one length does to each mode: z -> decay z + rise watts."""

    decays: tuple[float, ...]
    rises: tuple[float, ...]


@dataclass(slots=True)
class Chain:
    """The RC chain. Temperatures are given from the die outwards, as rises over the air's."""

    stages: tuple[ThermalStage, ...]
    rates: NDArray[np.float64] = field(init=False)
    capacities: NDArray[np.float64] = field(init=False)
    die_weights: tuple[float, ...] = field(init=False)
    per_watt: NDArray[np.float64] = field(init=False)
    _to_modes: NDArray[np.float64] = field(init=False)
    _from_modes: NDArray[np.float64] = field(init=False)
    _outward: NDArray[np.float64] = field(init=False)
    _steps: dict[int, Step] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        resistances = np.array([s.millikelvin_per_watt / 1000 for s in self.stages])
        self.capacities = np.array([s.millijoules_per_kelvin / 1000 for s in self.stages])
        conductance = np.diag(1 / resistances)
        for index in range(1, resistances.size):
            between = 1 / resistances[index - 1]
            conductance[index, index] += between
            conductance[index - 1, index] = conductance[index, index - 1] = -between
        root = np.sqrt(self.capacities)
        self.rates, vectors = np.linalg.eigh(conductance / np.outer(root, root))
        self._to_modes = vectors.T * root
        self._from_modes = vectors / root[:, None]
        self._outward = np.cumsum(resistances[::-1])[::-1].copy()
        self.per_watt = self._to_modes @ self._outward
        self.die_weights = tuple(self._from_modes[0].tolist())

    @property
    def fastest_ns(self) -> float:
        """The shortest time constant."""
        return NS_PER_SECOND / float(self.rates.max())

    @property
    def kelvin_per_watt(self) -> float:
        """Resistance of the whole chain, from the die to the air."""
        return float(self._outward[0])

    def steady(self, watts: float) -> Temperatures:
        """The rises (float64[stages]) at which the stages settle."""
        return watts * self._outward

    def modes_of(self, rises: Temperatures) -> Modes:
        """The state in which the stages are that warm."""
        return list((self._to_modes @ rises).tolist())

    def rises_of(self, modes: Sequence[float] | NDArray[np.float64]) -> Temperatures:
        """Rises (float64[..., stages]) of a state, or of states in rows."""
        return np.asarray(np.asarray(modes) @ self._from_modes.T)

    def step(self, duration_ns: int) -> Step:
        """The exact step of that length."""
        known = self._steps.get(duration_ns)
        if known is None:
            decays = np.exp(-self.rates * (duration_ns / NS_PER_SECOND))
            rises = -np.expm1(-self.rates * (duration_ns / NS_PER_SECOND)) * self.per_watt
            known = Step(tuple(decays.tolist()), tuple(rises.tolist()))
            if len(self._steps) < _MOST_KNOWN_STEPS:
                self._steps[duration_ns] = known
        return known

    def released_joules(
        self, modes: NDArray[np.float64], watts: NDArray[np.float64], seconds: NDArray[np.float64]
    ) -> float:
        """Heat that went to the air in steps from these states (float64[steps, modes]), each at
        its power and of its length: the integral of the last stage's rise over its resistance."""
        settled = watts[:, None] * self.per_watt
        decayed = -np.expm1(-self.rates * seconds[:, None]) / self.rates
        integrals = settled * seconds[:, None] + (modes - settled) * decayed
        last_ohms = self.stages[-1].millikelvin_per_watt / 1000
        return float((integrals @ self._from_modes[-1]).sum() / last_ohms)
