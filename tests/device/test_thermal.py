"""The RC chain against analytic answers and independent integrators."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from stages.device.thermal import Chain
from stages.hardware.spec import ThermalStage

SECOND = 1_000_000_000
Rises = NDArray[np.float64]


def chain(*stages: tuple[int, int]) -> Chain:
    """Stages of (mK/W, mJ/K)."""
    return Chain(
        tuple(
            ThermalStage(f"s{index}", resistance, capacity)
            for index, (resistance, capacity) in enumerate(stages)
        )
    )


def stepped(ladder: Chain, rises: Rises, watts: float, duration_ns: int) -> Rises:
    """Rises after one step."""
    step = ladder.step(duration_ns)
    modes = zip(ladder.modes_of(rises), step.decays, step.rises, strict=True)
    return ladder.rises_of([decay * mode + rise * watts for mode, decay, rise in modes])


def matrix_of(stages: list[tuple[int, int]]) -> NDArray[np.float64]:
    """dT/dt = A T + (P / C_0) e_0, written down from the equations stage by stage."""
    count = len(stages)
    matrix = np.zeros((count, count))
    for index, (resistance, capacity) in enumerate(stages):
        r, c = resistance / 1000, capacity / 1000
        matrix[index, index] -= 1 / (r * c)
        if index + 1 < count:
            matrix[index, index + 1] += 1 / (r * c)
            next_c = stages[index + 1][1] / 1000
            matrix[index + 1, index] += 1 / (r * next_c)
            matrix[index + 1, index + 1] -= 1 / (r * next_c)
    return matrix


def test_one_stage_rises_as_the_textbook_says() -> None:
    # R = 8 K/W, C = 0.5 J/K, tau = 4 s; P = 3 W: T(t) = 24 (1 - exp(-t / 4))
    one = chain((8_000, 500))
    for seconds in (0.1, 1.0, 4.0, 40.0):
        ours = stepped(one, np.zeros(1), 3.0, int(seconds * SECOND))[0]
        assert ours == pytest.approx(24 * (1 - exp(-seconds / 4)), rel=1e-12)
    assert one.fastest_ns == pytest.approx(4 * SECOND)


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
        ours = stepped(two, np.zeros(2), 1.0, int(seconds * SECOND))[0]
        assert ours == pytest.approx(expected, rel=1e-10)


def test_three_stages_step_as_an_integrator_says() -> None:
    # the board of the shipped RK3588 spec, 4 W from a warm and uneven start
    stages = [(2_000, 50), (5_000, 5_000), (12_000, 60_000)]
    matrix, start = matrix_of(stages), np.array([30.0, 20.0, 10.0])
    heat = np.array([4.0 / 0.05, 0.0, 0.0])

    def slope(_: float, rises: Rises) -> Rises:
        return matrix @ rises + heat

    times = [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]
    solved = solve_ivp(slope, (0, 1000), start, method="Radau", t_eval=times, rtol=1e-9, atol=1e-9)
    for seconds, expected in zip(times, solved.y.T, strict=True):
        ours = stepped(chain(*stages), start, 4.0, round(seconds * SECOND))
        np.testing.assert_allclose(ours, expected, rtol=1e-6)


stage_values = st.tuples(st.integers(100, 50_000), st.integers(1, 20_000))


@given(st.lists(stage_values, min_size=1, max_size=4), st.floats(0, 20), st.floats(1e-4, 100))
def test_a_step_is_the_matrix_exponential(
    stages: list[tuple[int, int]], watts: float, seconds: float
) -> None:
    # the augmented system d/dt [T, 1] = [[A, b], [0, 0]] [T, 1]
    count = len(stages)
    augmented = np.zeros((count + 1, count + 1))
    augmented[:count, :count] = matrix_of(stages)
    augmented[0, count] = watts / (stages[0][1] / 1000)
    duration_ns = round(seconds * SECOND)
    start = np.linspace(60, 30, count)
    expected = (expm(augmented * (duration_ns / SECOND)) @ np.append(start, 1.0))[:count]
    ours = stepped(chain(*stages), start, watts, duration_ns)
    np.testing.assert_allclose(ours, expected, rtol=1e-7, atol=1e-7)


@given(st.lists(stage_values, min_size=1, max_size=4), st.floats(0, 20), st.integers(1, 10**10))
def test_many_steps_equal_one(
    stages: list[tuple[int, int]], watts: float, duration_ns: int
) -> None:
    ladder = chain(*stages)
    start = np.linspace(60, 30, len(stages))
    whole = stepped(ladder, start, watts, 4 * duration_ns)
    for _ in range(4):
        start = stepped(ladder, start, watts, duration_ns)
    np.testing.assert_allclose(start, whole, rtol=1e-9, atol=1e-6)


@given(
    st.lists(stage_values, min_size=1, max_size=4),
    st.lists(st.tuples(st.floats(0.01, 20), st.floats(1e-3, 50)), min_size=1, max_size=8),
)
def test_energy_is_conserved(
    stages: list[tuple[int, int]], spans: list[tuple[float, float]]
) -> None:
    # what comes in is stored in the stages, or has left over the last resistance
    ladder = chain(*stages)
    rises = np.full(len(stages), 15.0)
    first, states = rises, []
    for watts, seconds in spans:
        states.append(ladder.modes_of(rises))
        rises = stepped(ladder, rises, watts, round(seconds * SECOND))
    powers, lengths = np.array(spans).T
    lengths = np.round(lengths * SECOND) / SECOND
    released = ladder.released_joules(np.array(states), powers, lengths)
    stored = float(ladder.capacities @ (rises - first))
    supplied = float(powers @ lengths)
    scale = max(supplied, abs(stored), abs(released))
    assert abs(supplied - stored - released) < 1e-9 * scale


def test_released_heat_is_the_integral_over_the_last_resistance() -> None:
    # one stage at 10 K over the air, R = 2 K/W, C = 0.5 J/K, no power: all of its 5 J leave, and
    # 5 (1 - exp(-1)) of them in the first second
    one = chain((2_000, 500))
    state = np.array([one.modes_of(np.array([10.0]))])
    for seconds, expected in ((1.0, 5 * (1 - exp(-1))), (100.0, 5.0)):
        released = one.released_joules(state, np.zeros(1), np.array([seconds]))
        assert released == pytest.approx(expected, rel=1e-12)


def test_the_steady_profile_stays() -> None:
    ladder = chain((2_000, 250), (4_000, 3_000), (1_000, 90_000))
    profile = ladder.steady(2.5)
    # 2.5 x (2 + 4 + 1), 2.5 x (4 + 1), 2.5 x 1
    np.testing.assert_allclose(profile, [17.5, 12.5, 2.5])
    np.testing.assert_allclose(stepped(ladder, profile, 2.5, 7 * SECOND), profile)
    assert ladder.kelvin_per_watt == pytest.approx(7.0)
