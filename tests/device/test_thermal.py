"""Heat: the chain against analytic answers, the governor against tables."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.device.power import idle_watts, leakage_watts
from stages.device.thermal import Chain, Die, Governor
from stages.hardware.spec import Thermal, ThermalStage, Trip
from tests.device.specs import tiny_spec

SECOND = 1_000_000_000


def chain(*stages: tuple[int, int]) -> Chain:
    named = tuple(
        ThermalStage(f"s{index}", resistance, capacity)
        for index, (resistance, capacity) in enumerate(stages)
    )
    return Chain(Thermal(named, 25.0, SECOND, (), 200.0))


def test_one_stage_rises_as_the_textbook_says() -> None:
    # R = 8 K/W, C = 0.5 J/K, tau = 4 s; P = 3 W into air at 25 degC:
    # T(t) = 25 + 24 (1 - exp(-t / 4))
    one = chain((8_000, 500))
    for seconds in (0.1, 1.0, 4.0, 40.0):
        ours = one.step(np.array([25.0]), 3.0, 25.0, int(seconds * SECOND))[0]
        assert ours - 25 == pytest.approx(24 * (1 - exp(-seconds / 4)), rel=1e-3)


def test_two_stages_follow_the_roots_of_their_polynomial() -> None:
    # R1 = 2, C1 = 0.25, R2 = 4, C2 = 3. Rates are the roots of
    #   s^2 - s (1/(R1 C1) + 1/(R1 C2) + 1/(R2 C2)) + 1/(R1 C1 R2 C2) = 0
    # and, with P = 1 W from rest, T1(t) = (R1 + R2) - a exp(-s1 t) - b exp(-s2 t) where
    # T1(0) = 0 and T1'(0) = P / C1.
    r1, c1, r2, c2 = 2.0, 0.25, 4.0, 3.0
    linear = 1 / (r1 * c1) + 1 / (r1 * c2) + 1 / (r2 * c2)
    product = 1 / (r1 * c1 * r2 * c2)
    root = (linear**2 - 4 * product) ** 0.5
    fast, slow = (linear + root) / 2, (linear - root) / 2
    a = (1 / c1 - slow * (r1 + r2)) / (fast - slow)
    b = (r1 + r2) - a
    two = chain((2_000, 250), (4_000, 3_000))
    for seconds in (0.05, 0.5, 2.0, 20.0):
        expected = (r1 + r2) - a * exp(-fast * seconds) - b * exp(-slow * seconds)
        ours = two.step(np.zeros(2), 1.0, 0.0, int(seconds * SECOND))[0]
        assert ours == pytest.approx(expected, rel=1e-3)


stage_values = st.tuples(st.integers(100, 50_000), st.integers(1, 20_000))


@given(st.lists(stage_values, min_size=1, max_size=4), st.floats(0, 20), st.integers(1, 10**10))
def test_many_steps_equal_one(
    stages: list[tuple[int, int]], watts: float, duration_ns: int
) -> None:
    ladder = chain(*stages)
    start = np.linspace(60, 30, len(stages))
    whole = ladder.step(start, watts, 25.0, 4 * duration_ns)
    for _ in range(4):
        start = ladder.step(start, watts, 25.0, duration_ns)
    np.testing.assert_allclose(start, whole, rtol=1e-9, atol=1e-6)


@given(st.lists(stage_values, min_size=1, max_size=4), st.floats(0.01, 20))
def test_energy_is_conserved(stages: list[tuple[int, int]], watts: float) -> None:
    # what comes in is stored in the stages or has left over the last resistance (Simpson's rule
    # over a time in which the fastest stage moves little)
    ladder = chain(*stages)
    tau_ns = min(r * c for r, c in stages) * 1_000
    step_ns = max(1, tau_ns // 50)
    temperatures = [np.full(len(stages), 40.0)]
    for _ in range(100):
        temperatures.append(ladder.step(temperatures[-1], watts, 25.0, step_ns))
    capacities = np.array([c / 1000 for _, c in stages])
    stored = float(capacities @ (temperatures[-1] - temperatures[0]))
    leaving = np.array([t[-1] - 25.0 for t in temperatures]) / (stages[-1][0] / 1000)
    weights = np.ones(101)
    weights[1:-1:2], weights[2:-1:2] = 4, 2
    released = float(weights @ leaving) * step_ns / 1e9 / 3
    supplied = watts * 100 * step_ns / 1e9
    scale = max(supplied, abs(stored), abs(released))
    assert abs(supplied - stored - released) < 1e-3 * scale


def test_the_steady_profile_stays() -> None:
    ladder = chain((2_000, 250), (4_000, 3_000), (1_000, 90_000))
    profile = ladder.steady(2.5, 30.0)
    # 30 + 2.5 x (2 + 4 + 1), 30 + 2.5 x (4 + 1), 30 + 2.5 x 1
    np.testing.assert_allclose(profile, [47.5, 42.5, 32.5])
    np.testing.assert_allclose(ladder.step(profile, 2.5, 30.0, 7 * SECOND), profile)
    assert ladder.ambient_for(47.5, 2.5) == pytest.approx(30.0)


TRIPS = (Trip(85.0, 2, 2.0), Trip(90.0, 4, 0.0), Trip(95.0, 8, 3.0))


@pytest.mark.parametrize(
    ("readings", "dividers"),
    [
        ([84.9, 85.0, 84.0, 83.0, 82.9, 84.9], [1, 2, 2, 2, 1, 1]),
        ([89.9, 90.0, 89.9, 90.0], [2, 4, 2, 4]),  # no hysteresis at the second trip
        ([96.0, 92.5, 92.0, 91.9, 89.0, 82.0], [8, 8, 8, 4, 2, 1]),
        ([100.0, 20.0], [8, 1]),
    ],
)
def test_trips_and_their_hysteresis(readings: list[float], dividers: list[int]) -> None:
    governor = Governor(TRIPS)
    assert [governor.poll(celsius) for celsius in readings] == dividers


def test_a_device_without_trips_never_slows() -> None:
    assert Governor(()).poll(500.0) == 1


def test_leakage_doubles() -> None:
    power = tiny_spec().power  # 50 mW at 25 degC, doubling every 25 K
    assert leakage_watts(power, 25.0) == pytest.approx(0.05)
    assert leakage_watts(power, 75.0) == pytest.approx(0.2)
    assert idle_watts(power, 25.0) == pytest.approx(0.15)


def test_a_die_at_rest_stays_at_rest() -> None:
    die = Die.at_rest(tiny_spec())
    before = die.junction_celsius
    assert before > tiny_spec().thermal.ambient_celsius
    for _ in range(100):
        die.advance(idle_watts(die.spec.power, die.junction_celsius), SECOND)
    assert die.junction_celsius == pytest.approx(before, abs=1e-6)


def test_a_heated_die_idles_at_the_wanted_temperature() -> None:
    die = Die.heated(tiny_spec(), 85.0)
    assert die.junction_celsius == pytest.approx(85.0)
    # 85 degC leaks 50 mW x 2^(60/25) = 263.9 mW, with 100 mW idle 363.9 mW over 25 K/W: 9.1 K
    assert die.ambient_celsius == pytest.approx(75.9, abs=0.05)
    for _ in range(100):
        die.advance(idle_watts(die.spec.power, die.junction_celsius), SECOND)
    assert die.junction_celsius == pytest.approx(85.0, abs=1e-6)


def test_polls_come_at_their_period() -> None:
    die = Die.heated(tiny_spec(), 84.9)  # polls every 1,000,000 ns
    assert die.poll_if_due() == 1
    die.temperatures = die.temperatures + 10
    die.now_ns = 999_999
    assert die.poll_if_due() == 1
    die.now_ns = 1_000_000
    assert die.poll_if_due() == 2
    assert die.next_poll_ns == 2_000_000
