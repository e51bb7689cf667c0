"""A die at rest, in a chamber, in moving air, and what it leaks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from stages.device.die import Die
from stages.device.power import idle_watts, leakage_watts
from stages.device.surroundings import Surroundings, stages_in
from stages.errors import InputError
from stages.hardware.load import load_spec, spec_names
from stages.hardware.spec import AirSpeed, Thermal, ThermalStage
from tests.device.specs import tiny_spec
from tests.hardware.specs import SPECS

SECOND = 1_000_000_000
HOT = Surroundings(junction_celsius=85.0)


def test_leakage_doubles_and_falls_with_the_voltage() -> None:
    power = tiny_spec().power  # 50 mW at 25 degC, doubling every 25 K
    assert leakage_watts(power, 25.0) == pytest.approx(0.05)
    assert leakage_watts(power, 75.0) == pytest.approx(0.2)
    assert leakage_watts(power, 75.0, 0.8) == pytest.approx(0.16)
    assert idle_watts(power, 25.0) == pytest.approx(0.15)


@pytest.mark.parametrize("where", [Surroundings(), HOT, Surroundings(ambient_celsius=60.0)])
def test_an_idle_die_stays_where_it_was_placed(where: Surroundings) -> None:
    die = Die.placed(tiny_spec(), where)
    before = die.junction_celsius
    assert before > die.ambient_celsius
    for _ in range(100):
        die.advance(0.0, SECOND)
    assert die.junction_celsius == pytest.approx(before, abs=1e-6)


def test_a_chamber_keeps_the_idle_die_at_its_temperature() -> None:
    die = Die.placed(tiny_spec(), HOT)
    assert die.junction_celsius == pytest.approx(85.0)
    # 85 degC leaks 50 mW x 2^(60/25) = 263.9 mW, with 100 mW idle 363.9 mW over 25 K/W: 9.1 K
    assert die.ambient_celsius == pytest.approx(75.9, abs=0.05)


def test_a_die_at_rest_solves_its_own_equation() -> None:
    # T = 25 + 25 K/W x (0.1 + 0.05 x 2^((T - 25) / 25)), by bisection
    low, high = 25.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        below = 25 + 25 * (0.1 + 0.05 * 2 ** ((middle - 25) / 25)) > middle
        low, high = (middle, high) if below else (low, middle)
    assert Die.placed(tiny_spec()).junction_celsius == pytest.approx(low, abs=1e-9)


@pytest.mark.parametrize("steps_per_second", [10, 100])
def test_leakage_is_followed_to_second_order(steps_per_second: int) -> None:
    # 3 W on the tiny spec against an integrator that knows the leakage at every instant
    spec = tiny_spec()
    die = Die.placed(spec)
    start = die.chain.rises_of(die.modes)
    (r1, c1), (r2, c2) = ((5.0, 0.01), (20.0, 5.0))

    def slope(_: float, t: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
        watts = 3.0 + idle_watts(spec.power, 25.0 + float(t[0]))
        between = (t[0] - t[1]) / r1
        return [(watts - between) / c1, (between - t[1] / r2) / c2]

    solved = solve_ivp(slope, (0, 60), start, method="Radau", rtol=1e-10, atol=1e-10)
    for _ in range(60 * steps_per_second):
        die.advance(3.0, SECOND // steps_per_second)
    # 12.4 K from a steady state; the fast mode has a time constant of 50 ms
    tolerance = 2e-3 if steps_per_second == 10 else 2e-5
    assert die.junction_celsius == pytest.approx(25 + solved.y[0, -1], abs=tolerance)


def airy(*points: tuple[int, int]) -> Thermal:
    stages = (ThermalStage("die", 5_000, 10), ThermalStage("board", 20_000, 5_000))
    air = tuple(AirSpeed(speed, resistance) for speed, resistance in points)
    return replace(tiny_spec().thermal, stages=stages, airflow=air)


def test_moving_air_takes_more_heat() -> None:
    thermal = airy((0, 20_000), (1_000, 10_000), (3_000, 6_000))
    assert stages_in(thermal, None) == thermal.stages
    for speed, resistance in ((0, 20_000), (1_000, 10_000), (3_000, 6_000)):
        assert stages_in(thermal, speed)[-1].millikelvin_per_watt == resistance
    # halfway between 1/20 and 1/10 W/K: 0.075, so 13.333 K/W
    die, board = stages_in(thermal, 500)
    assert board.millikelvin_per_watt == 13_333
    assert die == thermal.stages[0]
    spec = replace(tiny_spec(), thermal=thermal)
    still, windy = (
        Die.placed(spec, Surroundings(None, 40.0, speed)).junction_celsius for speed in (0, 3_000)
    )
    assert 40 < windy < still


@pytest.mark.parametrize(
    ("thermal", "message"),
    [
        (airy(), "air of 2 m/s: the spec doesn't say what moving air does"),
        (airy((0, 20_000), (1_000, 10_000)), "air of 2 m/s: the spec knows 0 to 1 m/s"),
    ],
)
def test_air_that_the_spec_doesnt_know_is_refused(thermal: Thermal, message: str) -> None:
    with pytest.raises(InputError) as refused:
        stages_in(thermal, 2_000)
    assert refused.value.problem == message
    assert "thermal.airflow" in refused.value.hint


@pytest.mark.parametrize("name", spec_names(SPECS))
def test_every_shipped_device_can_stand_in_moving_air(name: str) -> None:
    spec = load_spec(SPECS / f"{name}.yaml")
    points = spec.thermal.airflow
    usual = spec.thermal.stages[-1].millikelvin_per_watt
    resistances = [point.millikelvin_per_watt for point in points]
    assert len(points) >= 3
    assert all(slower > faster for slower, faster in pairwise(resistances))
    # its usual air is one of them, and no speed takes heat beyond what laminar air can
    assert usual in resistances
    for slower, faster in pairwise(points):
        if slower.millimetres_per_second:
            ratio = faster.millimetres_per_second / slower.millimetres_per_second
            assert slower.millikelvin_per_watt <= 1.02 * faster.millikelvin_per_watt * ratio**0.5
    calm, windy = (
        Die.placed(spec, Surroundings(None, 40.0, point.millimetres_per_second)).junction_celsius
        for point in (points[0], points[-1])
    )
    assert 40 < windy < calm
    assert "thermal.airflow" in spec.sources
