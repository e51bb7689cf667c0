"""A device's thermal state, step by step: the chain, the air, and what leaks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from stages.device.power import idle_watts, leakage_watts
from stages.device.surroundings import USUAL, Surroundings, stages_in
from stages.device.thermal import Chain, Modes
from stages.hardware.spec import HardwareSpec

_SENSOR_DECIMALS = 3  # Linux thermal zones report whole millidegrees
_FIXED_POINT_STEPS = 50


@dataclass(slots=True)
class Die:
    """`modes` is the state of `chain`, `junction_celsius` the die's temperature in it."""

    spec: HardwareSpec
    chain: Chain
    ambient_celsius: float
    modes: Modes
    junction_celsius: float

    @staticmethod
    def placed(spec: HardwareSpec, where: Surroundings = USUAL) -> Die:
        """A device that has long been idle there.

        Raises:
            InputError: the spec says nothing of air at that speed.
        """
        chain = Chain(stages_in(spec.thermal, where.air_millimetres_per_second))
        idle = partial(idle_watts, spec.power)
        if where.junction_celsius is not None:
            watts = idle(where.junction_celsius)
            ambient = where.junction_celsius - watts * chain.kelvin_per_watt
        else:
            given = where.ambient_celsius
            ambient = spec.thermal.ambient_celsius if given is None else given
            junction = ambient
            # idle power depends on the temperature that it makes: iterate to the fixed point
            for _ in range(_FIXED_POINT_STEPS):
                junction = ambient + idle(junction) * chain.kelvin_per_watt
            watts = idle(junction)
        modes = chain.modes_of(chain.steady(watts))
        return Die(spec, chain, ambient, modes, ambient + float(chain.steady(watts)[0]))

    @property
    def sensor_celsius(self) -> float:
        """What the governor reads."""
        return round(self.junction_celsius, _SENSOR_DECIMALS)

    @property
    def is_critical(self) -> bool:
        """Whether the device would switch itself off."""
        return self.junction_celsius >= self.spec.thermal.critical_celsius

    def advance(self, dynamic_watts: float, duration_ns: int, voltage: float = 1.0) -> float:
        """Let time pass with this mean dynamic power; the whole mean power that it came to.

        Leakage is that of the temperature halfway, found with one trial step (the midpoint rule:
        its error shrinks with the square of the step).
        """
        power, step, weights = self.spec.power, self.chain.step(duration_ns), self.chain.die_weights
        before = self.junction_celsius
        leaking = leakage_watts(power, before, voltage)
        watts = dynamic_watts + power.idle_milliwatts / 1000 + leaking
        trial = self.ambient_celsius
        response = 0.0
        moved = []
        for mode, decay, rise, weight in zip(
            self.modes, step.decays, step.rises, weights, strict=True
        ):
            after = decay * mode + rise * watts
            moved.append(after)
            trial += weight * after
            response += weight * rise
        more = leakage_watts(power, (before + trial) / 2, voltage) - leaking
        self.modes = [mode + rise * more for mode, rise in zip(moved, step.rises, strict=True)]
        self.junction_celsius = trial + response * more
        return watts + more
