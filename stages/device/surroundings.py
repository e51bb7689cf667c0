"""Where a device stands: the air around it, how fast it moves, or a heat chamber."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stages.errors import InputError
from stages.hardware.spec import AirSpeed, Thermal, ThermalStage


@dataclass(frozen=True, slots=True)
class Surroundings:
    """None stands for the spec's own.

    With `junction_celsius` the device stands in a heat chamber whose air keeps the idle die at that
    temperature, and `ambient_celsius` must be None. Else the air has `ambient_celsius`.
    """

    junction_celsius: float | None = None
    ambient_celsius: float | None = None
    air_millimetres_per_second: int | None = None


USUAL = Surroundings()


def stages_in(thermal: Thermal, air_millimetres_per_second: int | None) -> tuple[ThermalStage, ...]:
    """The RC stages in air of that speed: the last one's resistance is the air's.

    Between two speeds of the spec's table the conductance is interpolated, as convection takes heat
    in proportion to its coefficient.

    Raises:
        InputError: the spec says nothing of that speed.
    """
    if air_millimetres_per_second is None:
        return thermal.stages
    resistance = _resistance(thermal.airflow, air_millimetres_per_second)
    return (*thermal.stages[:-1], replace(thermal.stages[-1], millikelvin_per_watt=resistance))


def _resistance(points: Sequence[AirSpeed], speed: int) -> int:
    """Millikelvin per watt, rounded."""
    if not points:
        raise InputError(
            f"air of {speed / 1000:g} m/s: the spec doesn't say what moving air does",
            hint="add `thermal.airflow` to it: the last stage's resistance at each speed",
        )
    slowest, fastest = points[0].millimetres_per_second, points[-1].millimetres_per_second
    if not slowest <= speed <= fastest:
        raise InputError(
            f"air of {speed / 1000:g} m/s: the spec knows {slowest / 1000:g} to "
            f"{fastest / 1000:g} m/s",
            hint="give a speed in that range, or extend `thermal.airflow`",
        )
    below = max(p for p in range(len(points)) if points[p].millimetres_per_second <= speed)
    left = points[below]
    if left.millimetres_per_second == speed:
        return left.millikelvin_per_watt
    right = points[below + 1]
    share = (speed - left.millimetres_per_second) / (
        right.millimetres_per_second - left.millimetres_per_second
    )
    conductance = (1 - share) / left.millikelvin_per_watt + share / right.millikelvin_per_watt
    return max(1, round(1 / conductance))
