"""What must hold between the keys of a hardware spec's thermal section, and with its clocks."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from stages.hardware.refusals import Refusal
from stages.hardware.schema import AirSpeedSection, SpecFile, ThermalSection, TripSection
from stages.hardware.spec import GovernorKind
from stages.units import format_frequency


def thermal_inconsistencies(file: SpecFile) -> Iterator[Refusal]:
    """Trips that contradict their order, the governor or the operating points; air speeds too."""
    yield from _trip_clocks(file)
    trips = file.thermal.trips
    for number in range(1, len(trips)):
        cooler, hotter = trips[number - 1], trips[number]
        slower = file.thermal.governor is GovernorKind.STEP_WISE or _slowdown(
            file, hotter
        ) > _slowdown(file, cooler)
        if hotter.temperature <= cooler.temperature or not slower:
            yield Refusal(
                ("thermal", "trips", number),
                f"trip table out of order: {_trip(cooler)} comes before {_trip(hotter)}",
                "list trips from the coolest up, each with a larger divider or a slower clock",
            )
    if trips and file.thermal.ambient >= trips[0].temperature:
        yield Refusal(
            ("thermal", "ambient"),
            f"{file.thermal.ambient / 1000:g} degC is over the first trip",
            "the device would never run at its full clock",
        )
    yield from _airflow(file.thermal)


def _trip_clocks(file: SpecFile) -> Iterator[Refusal]:
    """Each trip of a table says what the clock becomes; a step-wise governor finds out."""
    points = [point.clock for point in file.operating_points]
    step_wise = file.thermal.governor is GovernorKind.STEP_WISE
    if step_wise and len(file.thermal.trips) > 1:
        yield Refusal(
            ("thermal", "trips", 1), "a step-wise governor has one trip", "keep the coolest"
        )
    for number, trip in enumerate(file.thermal.trips):
        key = ("thermal", "trips", number)
        given = sum(value is not None for value in (trip.divider, trip.clock))
        if step_wise and given:
            yield Refusal(
                key,
                f"{_trip(trip)} under a step-wise governor",
                "give temperature and hysteresis alone: it steps through operating_points",
            )
        if not step_wise and given != 1:
            yield Refusal(
                key,
                f"{_trip(trip)} has {'both divider and' if given else 'neither divider nor'} clock",
                "give `divider: 2`, or `clock:` with one of operating_points",
            )
        if trip.clock is not None and trip.clock not in points:
            yield Refusal(
                (*key, "clock"),
                f"{format_frequency(trip.clock)} is no operating point",
                f"give one of {', '.join(map(format_frequency, points))}",
            )
        if trip.clock is not None and trip.clock >= file.clock:
            yield Refusal(
                (*key, "clock"),
                f"{format_frequency(trip.clock)} isn't below the nominal clock",
                f"give less than {format_frequency(file.clock)}",
            )


def _slowdown(file: SpecFile, trip: TripSection) -> Fraction:
    if trip.clock is not None:
        return Fraction(file.clock, trip.clock)
    return Fraction(trip.divider or 1)


def _trip(trip: TripSection) -> str:
    clock = f"clock/{trip.divider}" if trip.divider else ""
    if trip.clock:
        clock = format_frequency(trip.clock)
    return f"{trip.temperature / 1000:g} degC" + (f" ({clock})" if clock else "")


def _airflow(thermal: ThermalSection) -> Iterator[Refusal]:
    for number in range(1, len(thermal.airflow)):
        slower, faster = thermal.airflow[number - 1], thermal.airflow[number]
        if faster.speed <= slower.speed or faster.resistance > slower.resistance:
            yield Refusal(
                ("thermal", "airflow", number),
                f"{_air(faster)} comes after {_air(slower)}",
                "list speeds from the slowest up; faster air doesn't resist more",
            )


def _air(point: AirSpeedSection) -> str:
    return f"{point.resistance / 1000:g} K/W at {point.speed / 1000:g} m/s"
