"""Heat: a chain of RC stages from the die to the air, and the governor that watches it.

Stage i holds heat C_i and passes it outwards over R_i; the last one's R leads to the air (a Cauer
ladder, as in JEDEC JESD51-14):

    C_i dT_i/dt = (T_{i-1} - T_i)/R_{i-1} - (T_i - T_{i+1})/R_i,    power enters at the die (i = 0)

Over a step with constant power the solution is exact: the deviation from the steady state decays
by the matrix exponential, taken from the eigenvectors of the symmetric form C^-1/2 K C^-1/2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stages.device.power import idle_watts
from stages.hardware.spec import HardwareSpec, Thermal, Trip

_NS_PER_SECOND = 1e9
_SENSOR_DECIMALS = 3  # Linux thermal zones report whole millidegrees
Temperatures = NDArray[np.float64]


@dataclass(slots=True)
class Chain:
    """The RC chain; temperatures in degrees Celsius, from the die outwards."""

    thermal: Thermal
    _rates: NDArray[np.float64] = field(init=False)
    _to_modes: NDArray[np.float64] = field(init=False)
    _from_modes: NDArray[np.float64] = field(init=False)
    _outward: NDArray[np.float64] = field(init=False)
    _decays: dict[int, NDArray[np.float64]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        resistances = np.array([s.millikelvin_per_watt / 1000 for s in self.thermal.stages])
        capacities = np.array([s.millijoules_per_kelvin / 1000 for s in self.thermal.stages])
        conductance = np.diag(1 / resistances)
        for index in range(1, resistances.size):
            between = 1 / resistances[index - 1]
            conductance[index, index] += between
            conductance[index - 1, index] = conductance[index, index - 1] = -between
        root = np.sqrt(capacities)
        symmetric = conductance / np.outer(root, root)
        self._rates, vectors = np.linalg.eigh(symmetric)
        self._to_modes = vectors.T * root
        self._from_modes = vectors / root[:, None]
        # resistance from each stage to the air
        self._outward = np.cumsum(resistances[::-1])[::-1].copy()

    def steady(self, watts: float, ambient_celsius: float) -> Temperatures:
        """Where the stages settle."""
        return ambient_celsius + watts * self._outward

    def ambient_for(self, junction_celsius: float, watts: float) -> float:
        """The air temperature at which a die of that power settles at that temperature."""
        return junction_celsius - watts * float(self._outward[0])

    def step(
        self, temperatures: Temperatures, watts: float, ambient_celsius: float, duration_ns: int
    ) -> Temperatures:
        """Temperatures after `duration_ns` at constant power."""
        settled = self.steady(watts, ambient_celsius)
        modes = self._to_modes @ (temperatures - settled)
        return np.asarray(settled + self._from_modes @ (modes * self._decay(duration_ns)))

    def _decay(self, duration_ns: int) -> NDArray[np.float64]:
        known = self._decays.get(duration_ns)
        if known is None:
            known = np.exp(-self._rates * (duration_ns / _NS_PER_SECOND))
            if len(self._decays) < 4096:
                self._decays[duration_ns] = known
        return known


@dataclass(slots=True)
class Governor:
    """The driver's trip table with its hysteresis. `level` counts the trips that hold."""

    trips: tuple[Trip, ...]
    level: int = 0

    @property
    def divider(self) -> int:
        """What the clock is divided by now."""
        return self.trips[self.level - 1].divider if self.level else 1

    def poll(self, celsius: float) -> int:
        """Look at the die once; the divider from now on.

        A trip begins to hold at its temperature and ends below it by more than its hysteresis.
        """
        while self.level < len(self.trips) and celsius >= self.trips[self.level].celsius:
            self.level += 1
        while self.level:
            held = self.trips[self.level - 1]
            if celsius >= held.celsius - held.hysteresis_celsius:
                break
            self.level -= 1
        return self.divider


@dataclass(slots=True)
class Die:
    """A device's thermal state over time: stages, governor, and when it polls next."""

    spec: HardwareSpec
    chain: Chain
    ambient_celsius: float
    temperatures: Temperatures
    governor: Governor
    now_ns: int = 0
    next_poll_ns: int = 0

    @staticmethod
    def at_rest(spec: HardwareSpec) -> Die:
        """A device that has long been idle in its usual air."""
        chain = Chain(spec.thermal)
        ambient = spec.thermal.ambient_celsius
        # idle power depends on the temperature that it makes: iterate to the fixed point
        junction = ambient
        for _ in range(50):
            junction = float(chain.steady(idle_watts(spec.power, junction), ambient)[0])
        profile = chain.steady(idle_watts(spec.power, junction), ambient)
        return Die(spec, chain, ambient, profile, Governor(spec.thermal.trips))

    @staticmethod
    def heated(spec: HardwareSpec, junction_celsius: float) -> Die:
        """A device in a heat chamber whose air keeps the idle die at `junction_celsius`.

        Every stage starts at the steady profile of that state: the die at `junction_celsius`, the
        air cooler by idle power times the whole resistance. The load then heats it further, and
        throttling can't cool it below `junction_celsius`.
        """
        chain = Chain(spec.thermal)
        watts = idle_watts(spec.power, junction_celsius)
        ambient = chain.ambient_for(junction_celsius, watts)
        return Die(spec, chain, ambient, chain.steady(watts, ambient), Governor(spec.thermal.trips))

    @property
    def junction_celsius(self) -> float:
        """The die's temperature."""
        return float(self.temperatures[0])

    @property
    def is_critical(self) -> bool:
        """Whether the device would switch itself off."""
        return self.junction_celsius >= self.spec.thermal.critical_celsius

    def poll_if_due(self) -> int:
        """Poll when the time has come; the clock divider that holds now."""
        while self.now_ns >= self.next_poll_ns:
            self.governor.poll(round(self.junction_celsius, _SENSOR_DECIMALS))
            self.next_poll_ns += max(1, self.spec.thermal.poll_ns)
        return self.governor.divider

    def advance(self, watts: float, duration_ns: int) -> None:
        """Let time pass at constant power."""
        self.temperatures = self.chain.step(
            self.temperatures, watts, self.ambient_celsius, duration_ns
        )
        self.now_ns += duration_ns
