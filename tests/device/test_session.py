"""Runs on a die that heats up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stages.device.die import Die
from stages.device.latencies import Latencies
from stages.device.samples import Samples
from stages.device.session import Length, run_session
from stages.device.surroundings import USUAL, Surroundings
from stages.device.weather import Climate
from stages.errors import InputError
from stages.hardware.spec import HardwareSpec, Thermal, ThermalStage, Trip
from stages.plan.costs import Costs, Role, instruction_costs
from tests.device.plans import conv_relu_plan
from tests.device.specs import tiny_spec


def calm_spec(trips: tuple[Trip, ...], poll_ns: int, critical: float = 115.0) -> HardwareSpec:
    """No jitter; a die of 5 K/W and 10 mJ/K on still air."""
    thermal = Thermal((ThermalStage("die", 5_000, 10),), 25.0, poll_ns, trips, critical)
    return replace(tiny_spec(jitter=()), thermal=thermal)


def compute_only(cycles: int) -> Costs:
    return Costs(
        ("tensor_core",), [Role.COMPUTE], [0], [cycles], [0], [0], [0], [-1], 0, 0, 1, False
    )


def session(
    spec: HardwareSpec, costs: Costs, femtojoules: int, runs: int, where: Surroundings = USUAL
) -> Samples:
    latencies = Latencies(costs, Climate(spec, 0), runs)
    return run_session(latencies, Die.placed(spec, where), lambda _: femtojoules, Length(runs))


def test_a_run_that_spans_a_poll_goes_on_at_the_new_clock() -> None:
    # at 84.99 degC nothing holds at the first poll (0 ns); 2 W more heat the die past 85 degC by
    # the poll at 400,000 ns: of the run's 1,000,000 ns 600,000 are left and take twice as long.
    spec = calm_spec((Trip(85.0, 2, 2.0),), poll_ns=400_000)
    where = Surroundings(84.99)
    samples = session(spec, compute_only(1_000_000), 2_000_000_000_000, 2, where)
    assert samples.latencies_ns.tolist() == [1_600_000, 2_000_000]
    assert samples.heat is not None
    assert samples.heat.clock_dividers.tolist() == [2, 2]
    assert samples.heat.shutdown_run is None


def test_energy_heats_the_die_as_the_textbook_says() -> None:
    # one run of 1 ms with 1 W of dynamic power on top of idle: in the chamber, where idle power
    # keeps 50 degC, only the dynamic part moves the die: 5 K (1 - exp(-1 ms / 50 ms)) = 0.0990 K
    spec = calm_spec((), poll_ns=10_000_000)
    where = Surroundings(50.0)
    samples = session(spec, compute_only(1_000_000), 1_000_000_000_000, 1, where)
    assert samples.heat is not None
    assert samples.heat.junction_celsius[0] - 50 == pytest.approx(0.0990066, rel=1e-3)


def test_a_device_that_becomes_critical_goes_off() -> None:
    spec = calm_spec((), poll_ns=100_000, critical=90.0)
    where = Surroundings(89.0)
    samples = session(spec, compute_only(50_000_000), 100_000_000_000_000, 100, where)
    assert samples.heat is not None
    assert samples.heat.shutdown_run == samples.latencies_ns.size < 100
    assert samples.heat.junction_celsius[-1] >= 90


def test_warm_up_runs_heat_but_dont_count() -> None:
    spec = tiny_spec()
    costs = instruction_costs(conv_relu_plan(), spec)
    all_runs, later = (
        run_session(
            Latencies(costs, Climate(spec, 3), 30),
            Die.placed(spec, Surroundings(40.0)),
            lambda _: 10**9,
            Length(30),
            warmup,
        )
        for warmup in (0, 10)
    )
    assert later.latencies_ns.tolist() == all_runs.latencies_ns.tolist()[10:]
    assert later.heat is not None
    assert all_runs.heat is not None
    np.testing.assert_array_equal(later.heat.junction_celsius, all_runs.heat.junction_celsius[10:])


def test_the_clock_holds_a_die_at_its_trip() -> None:
    # 3 W of compute at full clock would take the die 15 K above its 25 degC and more; a trip at
    # 35 degC with 1 K of hysteresis halves the power and holds it there
    spec = calm_spec((Trip(35.0, 2, 1.0),), poll_ns=1_000_000)
    samples = session(spec, compute_only(1_000_000), 3_000_000_000_000, 1_000)
    assert samples.heat is not None
    settled = samples.heat.junction_celsius[200:]
    dividers = samples.heat.clock_dividers[200:]
    # a millisecond at 3 W moves it by less than 0.3 K
    assert 33.7 < settled.min() < 34.3
    assert 34.7 < settled.max() < 35.3
    changes = int(np.count_nonzero(np.diff(dividers)))
    assert changes > 20
    assert set(dividers.tolist()) == {1, 2}


def test_a_thermal_runaway_ends_in_a_shutdown() -> None:
    spec = calm_spec((), poll_ns=100_000_000)
    power = replace(spec.power, leakage_milliwatts=20_000, leakage_doubling_celsius=5)
    spec = replace(spec, power=power)
    samples = session(spec, compute_only(10_000_000_000), 10**15, 3)
    assert samples.heat is not None
    assert samples.heat.shutdown_run == 1
    assert np.isfinite(samples.heat.junction_celsius).all()


def test_a_session_that_no_memory_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stages.device.session._MOST_RUNS", 1_000)
    spec = calm_spec((), poll_ns=10_000_000)
    with pytest.raises(InputError, match="more than 1,000 runs") as refused:
        session(spec, compute_only(10_000), 1, 5_000)
    assert "--minutes" in refused.value.hint
