"""Power that flows whether or not the device works: idle and leakage."""

from __future__ import annotations

from stages.hardware.spec import Power

_LEAKAGE_CELSIUS = 25.0  # the temperature of the spec's leakage
_MOST_DOUBLINGS = 30.0  # far beyond any critical temperature: a thermal runaway stays finite


def leakage_watts(power: Power, celsius: float, voltage: float = 1.0) -> float:
    """Leakage doubles with every `leakage_doubling_celsius`, and is proportional to the voltage
    (a share of the nominal one)."""
    doublings = min((celsius - _LEAKAGE_CELSIUS) / power.leakage_doubling_celsius, _MOST_DOUBLINGS)
    return float(power.leakage_milliwatts / 1000 * voltage * 2.0**doublings)


def idle_watts(power: Power, celsius: float) -> float:
    """Power of a die that does nothing, at its nominal voltage."""
    return power.idle_milliwatts / 1000 + leakage_watts(power, celsius)
