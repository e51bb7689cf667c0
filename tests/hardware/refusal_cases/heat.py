"""Clocks, power, trips and jitter that contradict each other."""

from __future__ import annotations

from tests.hardware.refusal_cases.words import Case

HEAT: dict[str, Case] = {
    "trips out of order": (
        "temperature: 95 degC",
        "temperature: 80 degC",
        "thermal.trips[1]: trip table out of order: 85 degC (clock/2) comes before"
        " 80 degC (clock/4)",
        "80 degC",
        "list trips from the coolest up, each with a larger divider or a slower clock",
    ),
    "divider and clock": (
        "divider: 2, ",
        "divider: 2, clock: 250 MHz, ",
        "thermal.trips[0]: 85 degC (250 MHz) has both divider and clock",
        "divider: 2, clock: 250 MHz",
        "give `divider: 2`, or `clock:` with one of operating_points",
    ),
    "neither divider nor clock": (
        "divider: 2, ",
        "",
        "thermal.trips[0]: 85 degC has neither divider nor clock",
        "85 degC",
        "give `divider: 2`, or `clock:` with one of operating_points",
    ),
    "clock that is no operating point": (
        "divider: 2, ",
        "clock: 200 MHz, ",
        "thermal.trips[0].clock: 200 MHz is no operating point",
        "clock: 200 MHz",
        "give one of 125 MHz, 250 MHz, 500 MHz",
    ),
    "clock that isn't slower": (
        "divider: 2, ",
        "clock: 500 MHz, ",
        "thermal.trips[0].clock: 500 MHz isn't below the nominal clock",
        "degC, clock: 500 MHz",
        "give less than 500 MHz",
    ),
    "a divider under a step-wise governor": (
        "  trips:\n",
        "  governor: step_wise\n  trips:\n",
        "thermal.trips[0]: 85 degC (clock/2) under a step-wise governor",
        "85 degC",
        "give temperature and hysteresis alone: it steps through operating_points\n"
        "also wrong in this file: thermal.trips[1] on line <95 degC>, thermal.trips[1] on line"
        " <95 degC>",
    ),
    "air that resists more": (
        "resistance: 27 K/W",
        "resistance: 40 K/W",
        "thermal.airflow[2]: 40 K/W at 2 m/s comes after 35 K/W at 1 m/s",
        "40 K/W",
        "list speeds from the slowest up; faster air doesn't resist more",
    ),
    "divider of one": (
        "divider: 2",
        "divider: 1",
        "thermal.trips[0].divider: 1 is less than 2",
        "divider: 1",
        "raise it",
    ),
    "always tripped": (
        "ambient: 25 degC",
        "ambient: 90 degC",
        "thermal.ambient: 90 degC is over the first trip",
        "ambient:",
        "the device would never run at its full clock",
    ),
    "clock of no operating point": (
        "clock: 500 MHz",
        "clock: 400 MHz",
        "clock: 400 MHz is no operating point",
        "clock: 400 MHz",
        "list the nominal clock in operating_points with its voltage",
    ),
    "operating points out of order": (
        "{clock: 125 MHz",
        "{clock: 300 MHz",
        "operating_points: clocks out of order: 300 MHz, 250 MHz, 500 MHz",
        "operating_points:",
        "list each step once, from the slowest up",
    ),
    "energy missing": (
        "mac: {i8: 0.3 pJ, u8: 0.3 pJ, f16: 1 pJ}",
        "mac: {i8: 0.3 pJ, u8: 0.3 pJ}",
        "power.mac: no energy for f16",
        "mac: {i8: 0.3",
        "add `f16: 0.5 pJ` or the like",
    ),
    "half a kelvin": (
        "leakage_doubling: 25 K",
        "leakage_doubling: 2.5 K",
        "power.leakage_doubling: 2500 mK isn't a whole number of kelvin",
        "2.5 K",
        "round it to 1 K",
    ),
    "jitter twice": (
        "cause: interrupt",
        "cause: dram_refresh",
        "jitter[1].cause: dram_refresh twice",
        "interval: 4 ms",
        "list it once",
    ),
    "stall without end": (
        "stall: 160 ns",
        "stall: 8 us",
        "jitter[0].stall: 8 us every 7.8 us never ends",
        "stall: 8 us",
        "the stall must be shorter than the interval",
    ),
}
