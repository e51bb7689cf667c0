"""Runs on a die that heats up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stages.device.power import Activity, activity_of, busy_watts
from stages.device.session import Latencies, run_session
from stages.device.thermal import Die
from stages.device.weather import Climate
from stages.hardware.spec import HardwareSpec, Thermal, ThermalStage, Trip
from stages.plan.costs import Costs, Role, instruction_costs
from stages.tensors import DType
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


def test_a_run_that_spans_a_poll_goes_on_at_the_new_clock() -> None:
    # at 84.99 degC nothing holds at the first poll (0 ns); 2 W more heat the die past 85 degC by
    # the poll at 400,000 ns: of the run's 1,000,000 ns 600,000 are left and take twice as long.
    spec = calm_spec((Trip(85.0, 2, 2.0),), poll_ns=400_000)
    latencies = Latencies(compute_only(1_000_000), Climate(spec, 0), 2)
    samples = run_session(latencies, Die.heated(spec, 84.99), 2_000_000_000_000, 0)
    assert samples.latencies_ns.tolist() == [1_600_000, 2_000_000]
    assert samples.heat is not None
    assert samples.heat.clock_dividers.tolist() == [2, 2]
    assert samples.heat.shutdown_run is None


def test_energy_heats_the_die_as_the_textbook_says() -> None:
    # one run of 1 ms with 1 W of dynamic power on top of idle: in the chamber, where idle power
    # keeps 50 degC, only the dynamic part moves the die: 5 K (1 - exp(-1 ms / 50 ms)) = 0.0990 K
    spec = calm_spec((), poll_ns=10_000_000)
    latencies = Latencies(compute_only(1_000_000), Climate(spec, 0), 1)
    samples = run_session(latencies, Die.heated(spec, 50.0), 1_000_000_000_000, 0)
    assert samples.heat is not None
    assert samples.heat.junction_celsius[0] - 50 == pytest.approx(0.0990066, rel=1e-3)


def test_a_device_that_becomes_critical_goes_off() -> None:
    spec = calm_spec((), poll_ns=100_000, critical=90.0)
    latencies = Latencies(compute_only(50_000_000), Climate(spec, 0), 100)
    samples = run_session(latencies, Die.heated(spec, 89.0), 100_000_000_000_000, 0)
    assert samples.heat is not None
    assert samples.heat.shutdown_run == samples.latencies_ns.size < 100
    assert samples.heat.junction_celsius[-1] >= 90


def test_warm_up_runs_heat_but_dont_count() -> None:
    spec = tiny_spec()
    costs = instruction_costs(conv_relu_plan(), spec)
    all_runs = run_session(Latencies(costs, Climate(spec, 3), 30), Die.heated(spec, 40.0), 10**9, 0)
    later = run_session(Latencies(costs, Climate(spec, 3), 30), Die.heated(spec, 40.0), 10**9, 10)
    assert later.latencies_ns.tolist() == all_runs.latencies_ns.tolist()[10:]
    assert later.heat is not None
    assert all_runs.heat is not None
    np.testing.assert_array_equal(later.heat.junction_celsius, all_runs.heat.junction_celsius[10:])


def test_energy_of_a_plan_is_counted_by_hand() -> None:
    # conv of 8x8x3x3 on 6x6: 36 x 8 x 72 = 20,736 MAC at 1,000 fJ; x and y are 576 bytes each, w
    # 1,152. Transfers touch ddr once each (576 + 576 + 1,152) and sram likewise; the core reads
    # and writes sram for the same bytes: 4,608. No vector work.
    activity = activity_of(conv_relu_plan())
    assert activity == Activity({DType.F16: 20_736}, 0, 4_608, 2_304)
    power = tiny_spec().power
    assert activity.femtojoules(power) == 20_736 * 1_000 + 4_608 * 300 + 2_304 * 20_000


def test_power_is_energy_over_time_and_idle() -> None:
    # 1 mJ in 1 ms is 1 W; idle at 25 degC is 100 + 50 mW
    assert busy_watts(tiny_spec(), 10**12, 10**6, 25.0) == pytest.approx(1.15)


def test_the_clock_holds_a_die_at_its_trip() -> None:
    # 3 W of compute at full clock would take the die 15 K above its 25 degC and more; a trip at
    # 35 degC with 1 K of hysteresis halves the power and holds it there
    spec = calm_spec((Trip(35.0, 2, 1.0),), poll_ns=1_000_000)
    latencies = Latencies(compute_only(1_000_000), Climate(spec, 0), 1_000)
    samples = run_session(latencies, Die.at_rest(spec), 3_000_000_000_000, 0)
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
    latencies = Latencies(compute_only(10_000_000_000), Climate(spec, 0), 3)
    samples = run_session(latencies, Die.at_rest(spec), 10**15, 0)
    assert samples.heat is not None
    assert samples.heat.shutdown_run == 1
    assert np.isfinite(samples.heat.junction_celsius).all()
