"""Governors against the tables that vendors ship, and what their levels are."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from stages.device.clocks import ClockLevel, StepWise, TripTable, clock_levels, governor_of
from stages.hardware.load import load_spec
from stages.hardware.spec import GovernorKind, HardwareSpec, OperatingPoint, Trip
from tests.device.specs import tiny_spec
from tests.hardware.specs import SPECS

EDGE_TPU = (Trip(85.0, 2, 0.0), Trip(90.0, 4, 0.0), Trip(95.0, 8, 0.0))
"""The Edge TPU driver's: clock 1/2, 1/4, 1/8, and no hysteresis."""
TRIPS = (Trip(85.0, 2, 2.0), Trip(90.0, 4, 0.0), Trip(95.0, 8, 3.0))
POINTS = (
    OperatingPoint(250_000_000, 600),
    OperatingPoint(500_000_000, 700),
    OperatingPoint(1_000_000_000, 800),
    OperatingPoint(1_200_000_000, 900),
)


def spec_of(trips: tuple[Trip, ...], governor: GovernorKind = GovernorKind.TABLE) -> HardwareSpec:
    thermal = replace(tiny_spec().thermal, trips=trips, governor=governor)
    return replace(tiny_spec(), thermal=thermal, operating_points=POINTS)


def dividers(trips: tuple[Trip, ...], readings: list[float]) -> list[Fraction]:
    spec = spec_of(trips)
    governor, levels = governor_of(spec), clock_levels(spec)
    return [levels[governor.poll(celsius)].slowdown for celsius in readings]


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([84.999, 85.0, 89.999, 90.0, 94.999, 95.0, 120.0], [1, 2, 2, 4, 4, 8, 8]),
        ([95.0, 94.999, 90.0, 89.999, 85.0, 84.999], [8, 4, 4, 2, 2, 1]),
    ],
)
def test_the_edge_tpus_table_has_no_hysteresis(readings: list[float], expected: list[int]) -> None:
    assert dividers(EDGE_TPU, readings) == expected


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([84.9, 85.0, 84.0, 83.0, 82.9, 84.9], [1, 2, 2, 2, 1, 1]),
        ([89.9, 90.0, 89.9, 90.0], [2, 4, 2, 4]),  # no hysteresis at the second trip
        ([96.0, 92.5, 92.0, 91.9, 89.0, 82.0], [8, 8, 8, 4, 2, 1]),
        ([100.0, 20.0], [8, 1]),
    ],
)
def test_trips_and_their_hysteresis(readings: list[float], expected: list[int]) -> None:
    assert dividers(TRIPS, readings) == expected


def test_a_device_without_trips_never_slows() -> None:
    assert dividers((), [500.0]) == [1]


def test_a_divider_keeps_the_voltage_and_a_clock_has_its_own() -> None:
    # nominal: 1 GHz at 800 mV
    trips = (Trip(85.0, 1, 2.0, 500_000_000), Trip(90.0, 4, 2.0), Trip(95.0, 1, 2.0, 250_000_000))
    assert clock_levels(spec_of(trips)) == (
        ClockLevel(Fraction(1), 1.0),
        ClockLevel(Fraction(2), 700 / 800),
        ClockLevel(Fraction(4), 1.0),
        ClockLevel(Fraction(4), 600 / 800),
    )


def test_a_step_wise_governor_walks_through_the_operating_points() -> None:
    # those below nominal; what lies above is never used
    spec = spec_of((Trip(85.0, 1, 2.0),), GovernorKind.STEP_WISE)
    assert [level.slowdown for level in clock_levels(spec)] == [1, 2, 4]
    governor = governor_of(spec)
    assert isinstance(governor, StepWise)
    readings = [84.0, 84.9, 85.0, 85.0, 85.4, 86.0, 85.5, 85.0, 83.5, 83.0, 82.9, 84.0, 85.2]
    #           cool        trip  flat  rising       falling, over 83 held      left        trip
    assert [governor.poll(celsius) for celsius in readings] == [
        0, 0, 1, 1, 2, 2, 1, 1, 1, 1, 0, 0, 1,
    ]  # fmt: skip


def test_a_step_wise_governor_waits_until_the_die_cools() -> None:
    governor = StepWise(Trip(85.0, 1, 2.0), 3)
    # falls below the trip and its hysteresis in one poll, and stays there: dropping, so nominal
    assert [governor.poll(celsius) for celsius in (86.0, 80.0, 80.0)] == [1, 0, 0]
    governor = StepWise(Trip(85.0, 1, 2.0), 3)
    assert [governor.poll(celsius) for celsius in (86.0, 87.0, 88.0, 89.0)] == [1, 2, 3, 3]


def test_polls_within_the_quiet_band_change_nothing() -> None:
    table = TripTable(TRIPS)
    for reading in (80.0, 86.0, 91.0, 96.0, 86.0):
        level = table.poll(reading)
        low, high = table.quiet_band()
        for celsius in (max(low + 1e-3, -50.0), min(high, 300.0) - 1e-3):
            assert table.poll(celsius) == level
    step_wise = StepWise(Trip(85.0, 1, 2.0), 3)
    assert step_wise.quiet_band()[1] == 85.0
    step_wise.poll(86.0)
    low, high = step_wise.quiet_band()
    assert low >= high


def test_the_shipped_specs_throttle_as_their_vendors_say() -> None:
    edge_tpu = load_spec(SPECS / "edge_tpu.yaml")
    governor, levels = governor_of(edge_tpu), clock_levels(edge_tpu)
    readings = [84.999, 85.0, 90.0, 95.0, 94.999, 89.999, 84.999]
    clocks = [levels[governor.poll(celsius)].slowdown for celsius in readings]
    assert clocks == [1, 2, 4, 8, 4, 2, 1]
    rk3588 = load_spec(SPECS / "rk3588_npu.yaml")
    assert rk3588.thermal.poll_ns == 20_000_000
    governor, levels = governor_of(rk3588), clock_levels(rk3588)
    readings = [84.999, 85.0, 83.0, 82.999, 84.999]
    clocks = [levels[governor.poll(celsius)].slowdown for celsius in readings]
    assert clocks == [1, 2, 2, 1, 1]


def test_shipped_specs_lower_the_voltage_with_the_clock() -> None:
    rockchip = load_spec(SPECS / "rk3576_npu.yaml")
    governor, levels = governor_of(rockchip), clock_levels(rockchip)
    assert isinstance(governor, StepWise)
    # over the trip and warming, a point down at each poll; it cools, so up again; out at 83 degC
    readings = [84.999, 85.0, 86.0, 87.0, 86.0, 85.5, 84.0, 82.999]
    clocks = [950 / float(levels[governor.poll(celsius)].slowdown) for celsius in readings]
    assert [round(clock) for clock in clocks] == [950, 900, 800, 700, 800, 900, 900, 950]
    assert [round(level.voltage, 3) for level in levels[:4]] == [1.0, 0.941, 0.882, 0.824]
    for name, clocks_mhz in (("jetson_orin_nano", (408, 306)), ("qualcomm_htp_v73", (800, 400))):
        spec = load_spec(SPECS / f"{name}.yaml")
        nominal, *throttled = clock_levels(spec)
        assert nominal == ClockLevel(Fraction(1), 1.0)
        found = [spec.clock_hz / float(level.slowdown) / 1e6 for level in throttled]
        assert [round(clock) for clock in found] == list(clocks_mhz)
        assert all(level.voltage < 0.9 for level in throttled)
