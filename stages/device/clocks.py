"""The governor: what the compute clock becomes when the die is hot.

It looks at the die once a poll period, as the sensor shows it, and picks a level: 0 is the nominal
clock, and `clock_levels` says what each level means.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Protocol

from stages.hardware.spec import GovernorKind, HardwareSpec, OperatingPoint, Trip


@dataclass(frozen=True, slots=True)
class ClockLevel:
    """`slowdown` is the nominal compute clock over this one; `voltage` a share of the nominal."""

    slowdown: Fraction
    voltage: float


NOMINAL = ClockLevel(Fraction(1), 1.0)


class Governor(Protocol):
    """Chooses a level at each poll."""

    def poll(self, celsius: float) -> int:
        """Look at the die; the level from now on."""

    def quiet_band(self) -> tuple[float, float]:
        """Temperatures strictly between these change nothing at a poll; empty where the lower is
        not below the upper."""


def clock_levels(spec: HardwareSpec) -> tuple[ClockLevel, ...]:
    """The levels of the spec's governor, from the nominal clock down.

    A divider gates the clock and leaves the voltage; a clock named by a trip, and each step of a
    step-wise governor, is an operating point with a voltage of its own.
    """
    nominal = next(point for point in spec.operating_points if point.clock_hz == spec.clock_hz)
    slower = [point for point in spec.operating_points if point.clock_hz < spec.clock_hz]
    if spec.thermal.governor is GovernorKind.STEP_WISE:
        steps = [_level_of(point, nominal) for point in reversed(slower)]
        return (NOMINAL, *steps)
    points = {point.clock_hz: point for point in slower}
    return (
        NOMINAL,
        *(
            _level_of(points[trip.clock_hz], nominal)
            if trip.clock_hz
            else ClockLevel(Fraction(trip.divider), 1.0)
            for trip in spec.thermal.trips
        ),
    )


def governor_of(spec: HardwareSpec) -> Governor:
    """The spec's governor, at rest."""
    thermal = spec.thermal
    if thermal.governor is GovernorKind.STEP_WISE and thermal.trips:
        return StepWise(thermal.trips[0], len(clock_levels(spec)) - 1)
    return TripTable(thermal.trips)


def _level_of(point: OperatingPoint, nominal: OperatingPoint) -> ClockLevel:
    return ClockLevel(
        Fraction(nominal.clock_hz, point.clock_hz), point.millivolts / nominal.millivolts
    )


@dataclass(slots=True)
class TripTable:
    """A trip table with hysteresis. `level` counts the trips that hold."""

    trips: tuple[Trip, ...]
    level: int = 0

    def poll(self, celsius: float) -> int:
        """A trip begins to hold at its temperature and ends below it by more than its
        hysteresis."""
        while self.level < len(self.trips) and celsius >= self.trips[self.level].celsius:
            self.level += 1
        while self.level:
            held = self.trips[self.level - 1]
            if celsius >= held.celsius - held.hysteresis_celsius:
                break
            self.level -= 1
        return self.level

    def quiet_band(self) -> tuple[float, float]:
        """From the end of the trip that holds to the next one."""
        low, high = -inf, inf
        if self.level:
            held = self.trips[self.level - 1]
            low = held.celsius - held.hysteresis_celsius
        if self.level < len(self.trips):
            high = self.trips[self.level].celsius
        return low, high


@dataclass(slots=True)
class StepWise:
    """Linux's `step_wise` (drivers/thermal/gov_step_wise.c, version 6.6) on one passive trip.

    At or over the trip the clock goes one level down at each poll while the die warms, and one up
    while it cools, but not past level 1; under the trip it stays while the die warms and goes back
    to nominal once it cools. Crossing the trip lowers it by its hysteresis until it is left.
    """

    trip: Trip
    deepest: int
    level: int = 0
    _held: bool = False
    _last_celsius: float = inf

    def poll(self, celsius: float) -> int:
        """One look at the die, and at whether it has warmed or cooled since the last one."""
        rising, falling = celsius > self._last_celsius, celsius < self._last_celsius
        threshold = self.trip.celsius - (self.trip.hysteresis_celsius if self._held else 0.0)
        was_held, self._held = self._held, celsius >= threshold
        if self._held:
            if rising or not was_held:
                self.level = min(self.level + 1, self.deepest)
            elif falling:
                self.level = max(self.level - 1, min(1, self.deepest))
        elif falling:
            self.level = 0
        self._last_celsius = celsius
        return self.level

    def quiet_band(self) -> tuple[float, float]:
        """Below the trip at the nominal clock; elsewhere each poll may change the level."""
        if self.level or self._held:
            return 0.0, 0.0
        return -inf, self.trip.celsius
