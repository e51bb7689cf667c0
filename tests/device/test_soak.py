"""Long sessions: the fast way against the slow one, and how vendors' chips behave in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stages.device.clocks import clock_levels
from stages.device.die import Die
from stages.device.history import History
from stages.device.latencies import Latencies
from stages.device.pace import Pace
from stages.device.samples import HeatHistory, Samples
from stages.device.session import Length, run_session
from stages.device.surroundings import Surroundings
from stages.device.weather import Climate
from stages.hardware.cost import cycles_to_nanoseconds
from stages.hardware.load import load_spec
from stages.hardware.spec import (
    GovernorKind,
    HardwareSpec,
    Jitter,
    JitterCause,
    OperatingPoint,
    Thermal,
    ThermalStage,
    Trip,
)
from stages.plan.costs import Costs, Role
from tests.device.slow_soak import Board, Slow, slow_soak, solved_soak
from tests.device.specs import tiny_spec
from tests.hardware.specs import SPECS

MILLISECOND = 1_000_000
MINUTE = 60_000 * MILLISECOND
EDGE_TPU = (Trip(85.0, 2, 0.0), Trip(90.0, 4, 0.0), Trip(95.0, 8, 0.0))
RK3588 = (Trip(85.0, 2, 2.0),)
DROOP = (Jitter(JitterCause.VOLTAGE_DROOP, interval_ns=20_000, stall_ns=400),)


def compute_only(cycles: int) -> Costs:
    """One piece of compute; a cycle is a nanosecond."""
    return Costs(
        ("tensor_core",), [Role.COMPUTE], [0], [cycles], [0], [0], [0], [-1], 0, 0, 1, False
    )


def board_of(
    trips: tuple[Trip, ...], poll_ms: int, governor: GovernorKind = GovernorKind.TABLE
) -> HardwareSpec:
    """Die, package and board, 15 K/W in all. The die alone takes about 100 ms, so that 6 W warm it
    through 85 degC within a second; 3 W are too little to hold it there."""
    stages = (
        ThermalStage("die", 6_000, 17),
        ThermalStage("package", 5_000, 100),
        ThermalStage("board", 4_000, 1_000),
    )
    thermal = Thermal(stages, 25.0, poll_ms * MILLISECOND, trips, 140.0, governor)
    return replace(tiny_spec(jitter=DROOP), thermal=thermal)


def soaked(
    spec: HardwareSpec,
    cycles: int,
    watts: float,
    length: Length,
    where: Surroundings,
    bank: int = 200,
) -> tuple[Samples, HeatHistory]:
    """A soak of inferences of so many cycles that take so many watts at full clock."""
    samples = run_session(
        Latencies(compute_only(cycles), Climate(spec, 3), bank),
        Die.placed(spec, where),
        lambda _: watts * cycles * 1e6,
        length,
    )
    assert samples.heat is not None
    return samples, samples.heat


def slowly(
    spec: HardwareSpec, cycles: int, watts: float, runs: int, where: Surroundings, solved: bool
) -> Slow:
    """The same the slow way."""
    bank = Latencies(compute_only(cycles), Climate(spec, 3), 200)
    slowdowns = {int(level.slowdown): level.slowdown for level in clock_levels(spec)}

    def latency(run: int, divider: int) -> int:
        return int(bank.at(slowdowns[divider])[run % 200])

    die = Die.placed(spec, where)
    board, rises = Board(spec, die.ambient_celsius), die.chain.rises_of(die.modes)
    energy = round(watts * cycles * 1e6)
    if solved:
        return solved_soak(board, rises, latency, energy, runs)
    return slow_soak(board, rises, latency, energy, runs, Pace.of(die).parts)


CASES = {
    "rk3588 that goes to and fro": (RK3588, 20, 7 * MILLISECOND, 6.0, 25.0, 400),
    "edge tpu without hysteresis": (EDGE_TPU, 20, 3 * MILLISECOND, 8.0, 40.0, 600),
    "runs that span many polls": (EDGE_TPU, 20, 170 * MILLISECOND, 8.0, 40.0, 20),
    "polls rarer than the die is fast": (RK3588, 500, 7 * MILLISECOND, 6.0, 25.0, 600),
}
"""Trips, poll in ms, length of a run, its watts, the air in degC, runs."""


@pytest.mark.parametrize("case", CASES)
def test_a_soak_equals_the_slow_way(case: str) -> None:
    trips, poll_ms, cycles, watts, celsius, runs = CASES[case]
    spec, where = board_of(trips, poll_ms), Surroundings(ambient_celsius=celsius)
    samples, heat = soaked(spec, cycles, watts, Length(runs), where)
    slow = slowly(spec, cycles, watts, runs, where, solved=False)
    assert samples.latencies_ns.tolist() == slow.latencies
    assert heat.clock_dividers.tolist() == slow.dividers
    np.testing.assert_allclose(heat.junction_celsius, slow.celsius, rtol=0, atol=1e-6)
    assert np.count_nonzero(np.diff(heat.clock_dividers)) >= 2


@pytest.mark.parametrize("case", CASES)
def test_a_soak_follows_the_physics(case: str) -> None:
    # power by the run and leakage by the instant, against power by the step and leakage halfway:
    # a die that 6 W warm by 350 K a second is right to a tenth of a kelvin
    trips, poll_ms, cycles, watts, celsius, runs = CASES[case]
    runs = min(runs, 300)
    spec, where = board_of(trips, poll_ms), Surroundings(ambient_celsius=celsius)
    samples, heat = soaked(spec, cycles, watts, Length(runs), where)
    slow = slowly(spec, cycles, watts, runs, where, solved=True)
    assert samples.latencies_ns.tolist() == slow.latencies
    assert heat.clock_dividers.tolist() == slow.dividers
    np.testing.assert_allclose(heat.junction_celsius, slow.celsius, rtol=0, atol=0.1)


def test_skipped_polls_change_nothing() -> None:
    # a poll a millisecond: steps of up to twelve polls, against one step a poll
    spec, where = board_of(RK3588, 1), Surroundings(ambient_celsius=25.0)
    samples, heat = soaked(spec, 7 * MILLISECOND, 6.0, Length(300), where)
    slow = slowly(spec, 7 * MILLISECOND, 6.0, 300, where, solved=False)
    assert Pace.of(Die.placed(spec, where)).most_polls > 8
    assert samples.latencies_ns.tolist() == slow.latencies
    assert heat.clock_dividers.tolist() == slow.dividers
    np.testing.assert_allclose(heat.junction_celsius, slow.celsius, rtol=0, atol=0.1)
    assert np.count_nonzero(np.diff(heat.clock_dividers)) > 3


def test_heat_is_conserved_over_a_soak() -> None:
    _, heat = soaked(board_of(EDGE_TPU, 20), 3_000_000, 12.0, Length(20_000), Surroundings())
    ledger = heat.ledger
    difference = ledger.supplied_joules - ledger.stored_joules - ledger.released_joules
    assert abs(difference) < 1e-9 * ledger.supplied_joules
    # dynamic energy alone is 12 W x 3 ms a run; the rest is idle power and leakage
    assert ledger.supplied_joules > 20_000 * 12.0 * 3e-3


def test_an_hour_of_inferences_is_simulated_whole() -> None:
    # 360,000 runs of 10 ms; how fast is told by flows/benchmarks/device_speed.py
    spec, where = board_of(RK3588, 20), Surroundings()
    samples, heat = soaked(spec, 10 * MILLISECOND, 6.0, Length(duration_ns=60 * MINUTE), where)
    assert samples.latencies_ns.size > 200_000
    assert samples.latencies_ns.sum() == pytest.approx(60 * MINUTE, rel=1e-5)
    assert np.count_nonzero(np.diff(heat.clock_dividers)) > 10_000


def test_a_soak_costs_its_polls_however_short_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    # ten minutes in steps of 10 ms, two a poll: 2,000,000 runs of 0.3 ms, or 60,000 of 10 ms
    steps: list[int] = []

    def add(self: History, modes: list[float], watts: float, end_ns: int) -> None:
        self.modes.extend(modes)
        self.watts.append(watts)
        self.ends_ns.append(end_ns)
        steps.append(end_ns)

    monkeypatch.setattr(History, "add", add)
    for cycles, runs in ((300_000, 1_900_000), (10 * MILLISECOND, 55_000)):
        steps.clear()
        length = Length(duration_ns=10 * MINUTE)
        samples, _ = soaked(board_of(RK3588, 20), cycles, 1.0, length, Surroundings())
        assert samples.latencies_ns.size > runs
        assert len(steps) == 60_000


def test_a_steady_state_is_where_the_resistances_say() -> None:
    # 15 K/W; with idle power and leakage at the temperature itself, by fixed point
    spec, where = board_of((), 20), Surroundings(ambient_celsius=25.0)
    samples, heat = soaked(spec, 10 * MILLISECOND, 2.0, Length(duration_ns=5 * MINUTE), where)
    power = 2.0 * 10 * MILLISECOND / float(samples.latencies_ns.mean())
    celsius = 60.0
    for _ in range(100):
        celsius = 25 + 15 * (power + 0.1 + 0.05 * 2 ** ((celsius - 25) / 25))
    assert heat.junction_celsius[-1000:].mean() == pytest.approx(celsius, abs=0.01)


def test_the_edge_tpus_clock_steps_at_its_temperatures() -> None:
    # one stage of 10 K/W and 0.1 J/K in air of 74 degC, so warming slowly through 85, 90 and 95
    # degC: 40 W hold it far above at any clock but an eighth
    thermal = Thermal((ThermalStage("die", 10_000, 100),), 74.0, MILLISECOND, EDGE_TPU, 400.0)
    spec = replace(tiny_spec(jitter=()), thermal=thermal)
    where = Surroundings(ambient_celsius=74.0)
    _, heat = soaked(spec, 500_000, 40.0, Length(1_000), where, bank=1)
    dividers = heat.clock_dividers.tolist()
    assert sorted(set(dividers)) == [1, 2, 4, 8]
    for divider, celsius in ((2, 85.0), (4, 90.0), (8, 95.0)):
        # a poll, and the rest of the run in which the clock fell: 0.4 K a millisecond
        # at full power
        first = heat.junction_celsius[dividers.index(divider)]
        assert celsius - 0.1 < first < celsius + 0.6
    # without hysteresis it hovers at the trip that separates too fast from too slow: at 2 K/W
    # 9 W would take it to 93 degC, half of that to 84
    spec = replace(spec, thermal=replace(thermal, stages=(ThermalStage("die", 2_000, 100),)))
    _, heat = soaked(spec, 500_000, 9.0, Length(4_000), where, bank=1)
    late = slice(3_000, None)
    assert set(heat.clock_dividers[late].tolist()) == {1.0, 2.0}
    assert np.abs(heat.junction_celsius[late] - 85.0).max() < 0.2


def test_the_rk3588_swings_over_its_hysteresis() -> None:
    spec = board_of(RK3588, 20)
    _, heat = soaked(spec, 5 * MILLISECOND, 6.0, Length(duration_ns=MINUTE), Surroundings())
    late = heat.junction_celsius[heat.junction_celsius.size // 2 :]
    # up to 85 degC and what 6 W warm a die of 17 mJ/K in a poll, 7 K at most; down to 83 and what
    # it cools in one
    assert 85.0 <= late.max() < 90.0
    assert 78.0 < late.min() < 83.0
    changes = np.flatnonzero(np.diff(heat.clock_dividers))
    assert changes.size > 10


def test_a_slower_clock_with_its_voltage_runs_cooler_than_a_divided_one() -> None:
    points = (OperatingPoint(500_000_000, 600), OperatingPoint(1_000_000_000, 800))
    trips = {"divided": Trip(85.0, 2, 2.0), "lowered": Trip(85.0, 1, 2.0, 500_000_000)}
    shares, celsius = {}, {}
    for name, trip in trips.items():
        spec = replace(board_of((trip,), 20), operating_points=points)
        samples = run_session(
            Latencies(compute_only(5 * MILLISECOND), Climate(spec, 3), 100),
            Die.placed(spec, Surroundings()),
            lambda voltage: 6.0 * 5e6 * 1e6 * voltage**2,
            Length(duration_ns=MINUTE),
        )
        assert samples.heat is not None
        shares[name] = float((samples.heat.clock_dividers == 1).mean())
        celsius[name] = float(samples.heat.junction_celsius.min())
    # the lower voltage cools faster, so it is held for a smaller part of the time
    assert shares["lowered"] > 1.1 * shares["divided"] > 0


def test_a_step_wise_governor_settles_between_operating_points() -> None:
    points = tuple(
        OperatingPoint(mhz * 1_000_000, 500 + mhz // 3) for mhz in (400, 600, 800, 1_000)
    )
    # 15 K/W: full clock settles at about 103 degC, 800 MHz at about 83
    spec = board_of((Trip(85.0, 1, 2.0),), 20, GovernorKind.STEP_WISE)
    spec = replace(spec, operating_points=points)
    _, heat = soaked(spec, 5 * MILLISECOND, 4.8, Length(duration_ns=MINUTE), Surroundings())
    late = slice(heat.clock_dividers.size // 2, None)
    assert {1.25, 1.0} <= set(heat.clock_dividers[late].tolist())
    assert 80.0 < heat.junction_celsius[late].min() < heat.junction_celsius[late].max() < 88.0


def test_a_step_of_power_warms_the_die_as_the_textbook_says() -> None:
    # 3 W into 10 K/W and 0.02 J/K from rest: T(t) = 25 + 30 (1 - exp(-t / 200 ms)), to 0.1 %
    thermal = Thermal((ThermalStage("die", 10_000, 20),), 25.0, 20 * MILLISECOND, (), 400.0)
    power = replace(tiny_spec().power, idle_milliwatts=0, leakage_milliwatts=0)
    spec = replace(tiny_spec(jitter=()), thermal=thermal, power=power)
    samples, heat = soaked(spec, MILLISECOND, 3.0, Length(2_000), Surroundings())
    seconds = np.cumsum(samples.latencies_ns) / 1e9
    expected = 30.0 * (1 - np.exp(-seconds / 0.2))
    np.testing.assert_allclose(heat.junction_celsius - 25.0, expected, rtol=1e-3)
    assert expected[0] < 0.2
    assert expected[-1] > 29.99


@pytest.mark.parametrize(
    ("name", "celsius", "divider"),
    [
        ("edge_tpu", 84.0, 1),
        ("edge_tpu", 85.0, 2),
        ("edge_tpu", 90.0, 4),
        ("edge_tpu", 95.0, 8),
        ("rk3588_npu", 84.0, 1),
        ("rk3588_npu", 85.0, 2),
    ],
)
def test_a_shipped_device_in_a_chamber_runs_at_its_vendors_clock(
    name: str, celsius: float, divider: int
) -> None:
    spec = replace(load_spec(SPECS / f"{name}.yaml"), jitter=())
    cycles = 10_000
    samples, heat = soaked(spec, cycles, 0.0, Length(50), Surroundings(celsius))
    assert heat.start_celsius == pytest.approx(celsius, abs=1e-3)
    assert set(heat.clock_dividers.tolist()) == {divider}
    assert set(samples.latencies_ns.tolist()) == {
        cycles_to_nanoseconds(spec, cycles * divider),
    }
