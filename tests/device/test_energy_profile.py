"""When energy is spent within a run that is longer than the die is fast."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import numpy as np
import pytest

from stages.device.die import Die
from stages.device.energy_profile import EnergyProfile, energy_profile
from stages.device.latencies import Latencies
from stages.device.samples import HeatHistory
from stages.device.session import Length, run_session
from stages.device.weather import Climate
from stages.hardware.spec import HardwareSpec, Thermal, ThermalStage, Trip
from stages.plan.costs import Costs, Role
from stages.plan.timing import Timing, run_costs
from tests.device.specs import tiny_spec

SECOND = 1_000_000_000
POWER = 4.0
"""Watts of an inference over its whole second."""


def spec_of(trips: tuple[Trip, ...] = ()) -> HardwareSpec:
    """One stage of 10 K/W and 0.02 J/K: 200 ms, ten polls; nothing leaks and nothing idles."""
    thermal = Thermal((ThermalStage("die", 10_000, 20),), 25.0, 20_000_000, trips, 400.0)
    power = replace(tiny_spec().power, idle_milliwatts=0, leakage_milliwatts=0)
    return replace(tiny_spec(jitter=()), thermal=thermal, power=power)


def costs_of(*pieces: tuple[Role, int]) -> Costs:
    """Pieces on one queue, in milliseconds."""
    count = len(pieces)
    none = [0] * count
    return Costs(
        ("tensor_core",), [role for role, _ in pieces], none,
        [length * 1_000_000 for _, length in pieces], none, none, none, [-1] * count,
        0, 0, 1, False,
    )  # fmt: skip


BUSY = costs_of((Role.COMPUTE, 500), (Role.BACKOFF, 500))
SPREAD = costs_of(*((Role.COMPUTE, 100), (Role.BACKOFF, 100)) * 5)


def heated(costs: Costs, spec: HardwareSpec) -> HeatHistory:
    energy = np.array([role is Role.COMPUTE for role in costs.roles], dtype=np.int64) * 1_000_000
    samples = run_session(
        Latencies(costs, Climate(spec, 0), 3),
        Die.placed(spec),
        lambda _: POWER * SECOND * 1e6,
        Length(3),
        0,
        energy_profile(run_costs(costs), energy),
    )
    assert samples.heat is not None
    return samples.heat


def test_instructions_spend_over_their_spans() -> None:
    # of 1,000 cycles: 300 fJ over [0, 500), 600 over [250, 500), 100 at once at 750
    timing = Timing(np.array([1_000]), np.array([0, 250, 750]), np.array([500, 500, 750]))
    profile = energy_profile(timing, np.array([300, 600, 100]))
    expected = {0.0: 0, 0.25: 0.15, 0.375: 0.525, 0.5: 0.9, 0.7: 0.9, 0.76: 1.0, 1.0: 1.0}
    for progress, spent in expected.items():
        assert profile.at(progress) == pytest.approx(spent, abs=2e-3)


def test_a_plan_without_energy_has_a_profile_too() -> None:
    timing = Timing(np.array([10]), np.array([0]), np.array([10]))
    assert energy_profile(timing, np.array([0])).at(0.5) == pytest.approx(0.5)


def test_the_die_is_warmest_where_the_work_is() -> None:
    # 8 W for half a second, then none, again and again. With a = exp(-0.5 / 0.2), after n runs:
    # T = 80 (1 - a) a (1 + a^2 + ... + a^(2n - 2)), and the peak is 80 (1 - a) at first, then more
    a = exp(-2.5)
    heat = heated(BUSY, spec_of())
    ends = [25 + 80 * (1 - a) * a * sum(a ** (2 * k) for k in range(n)) for n in (1, 2, 3)]
    np.testing.assert_allclose(heat.junction_celsius, ends, atol=0.1)
    peak = 25 + 80 * (1 - a) * sum(a ** (2 * k) for k in range(3))
    assert heat.peak_celsius == pytest.approx(peak, abs=0.3)
    ledger = heat.ledger
    assert ledger.supplied_joules == pytest.approx(3 * POWER, rel=1e-9)


def test_pauses_between_pieces_of_work_keep_the_die_cooler_than_one_at_the_end() -> None:
    spread, busy = heated(SPREAD, spec_of()), heated(BUSY, spec_of())
    assert spread.ledger.supplied_joules == pytest.approx(busy.ledger.supplied_joules)
    assert spread.peak_celsius < busy.peak_celsius - 15
    # and so they avoid a trip that lies between
    trip = (Trip(85.0, 2, 2.0),)
    assert heated(BUSY, spec_of(trip)).clock_dividers.max() == 2
    assert heated(SPREAD, spec_of(trip)).clock_dividers.max() == 1


def test_a_profile_starts_at_none_and_ends_at_all() -> None:
    profile = energy_profile(run_costs(SPREAD), np.array([5, 0] * 5))
    assert isinstance(profile, EnergyProfile)
    assert (profile.at(0.0), profile.at(1.0)) == (0.0, 1.0)
    assert np.all(np.diff(profile.spent) >= 0)
