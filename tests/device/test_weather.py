"""Seeded jitter: equal where it must be, and of the right size."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from stages.device.latencies import weathered_cycles
from stages.device.weather import Climate
from stages.hardware.spec import Jitter, JitterCause
from stages.plan.costs import Costs, Role, instruction_costs
from stages.plan.timing import run_costs
from tests.device.plans import conv_relu_plan
from tests.device.specs import tiny_spec

FULL = Fraction(1)


def busy(role: Role, queue: str, cycles: int, pieces: int) -> Costs:
    count = pieces
    return Costs(
        (queue,), [role] * count, [0] * count, [cycles // pieces] * count, [0] * count,
        [0] * count, [0] * count, [-1] * count, 0, 0, 2, False,
    )  # fmt: skip


def test_two_climates_of_one_seed_are_equal_and_of_two_are_not() -> None:
    costs = instruction_costs(conv_relu_plan(), tiny_spec())
    first, again, other = (
        weathered_cycles(costs, Climate(tiny_spec(), seed), 200, FULL) for seed in (5, 5, 6)
    )
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()
    assert (first >= run_costs(costs).total_cycles[0]).all()


def test_a_run_has_its_weather_whoever_else_runs() -> None:
    climate = Climate(tiny_spec(), 11)
    many, one = climate.at(range(10), 100_000), climate.at([7], 100_000)
    assert many.compute is not None
    assert one.compute is not None
    np.testing.assert_array_equal(many.compute.cumulative[7], one.compute.cumulative[0])


@pytest.mark.parametrize("cause", list(JitterCause))
def test_a_longer_horizon_changes_nothing_before(cause: JitterCause) -> None:
    spec = tiny_spec(jitter=(Jitter(cause, interval_ns=5_000, stall_ns=200),))
    near, far = (Climate(spec, 1).at(range(5), horizon) for horizon in (60_000, 90_000))
    for short, long in (
        (near.transfer, far.transfer),
        (near.compute, far.compute),
        (near.host, far.host),
    ):
        if short is None or long is None:
            assert short is long is None
            continue
        assert short.slot_shift == long.slot_shift
        whole = 60_000 >> short.slot_shift
        np.testing.assert_array_equal(short.cumulative[:, :whole], long.cumulative[:, :whole])
        assert (short.cumulative[:, -1] > 0).all()


def test_refresh_takes_its_share_of_a_busy_channel() -> None:
    # 160 of every 3,900 ns: a channel busy for 1,000,000 cycles stalls about 256 times 160 cycles,
    # fewer by those that fall into stalls themselves
    spec = tiny_spec(jitter=(Jitter(JitterCause.DRAM_REFRESH, 3_900, 160),))
    cycles = weathered_cycles(
        busy(Role.TRANSFER, "dma0", 1_000_000, 1_000), Climate(spec, 0), 50, FULL
    )
    assert cycles.mean() == pytest.approx(1_041_000, rel=0.005)
    assert np.ptp(cycles) <= 4 * 160


def test_droop_stalls_compute_by_its_mean_and_has_a_tail() -> None:
    spec = tiny_spec(jitter=(Jitter(JitterCause.VOLTAGE_DROOP, 20_000, 300),))
    costs = busy(Role.COMPUTE, "tensor_core", 2_000_000, 1_000)
    cycles = np.sort(weathered_cycles(costs, Climate(spec, 0), 2_000, FULL))
    # 1.5 % on average (the factor's bounds move its mean by a few percent), and the tail that
    # the run's factor gives: P99/mean between 1.03 and 1.1
    assert cycles.mean() / 2_000_000 == pytest.approx(1.015, abs=0.002)
    assert 1.03 < cycles[1979] / cycles.mean() < 1.1


def test_causes_touch_their_own_engines_only() -> None:
    spec = tiny_spec(jitter=(Jitter(JitterCause.VOLTAGE_DROOP, 1_000, 300),))
    costs = busy(Role.HOST, "host", 100_000, 10)
    assert set(weathered_cycles(costs, Climate(spec, 0), 20, FULL).tolist()) == {100_000}


def test_no_jitter_no_weather() -> None:
    spec = tiny_spec(jitter=())
    costs = busy(Role.COMPUTE, "tensor_core", 100_000, 10)
    assert set(weathered_cycles(costs, Climate(spec, 0), 20, FULL).tolist()) == {100_000}


def test_refreshes_are_counted_as_they_come() -> None:
    spec = tiny_spec(jitter=(Jitter(JitterCause.DRAM_REFRESH, 3_900, 160),))
    table = Climate(spec, 9).at(range(4), 50_000).transfer
    assert table is not None
    for row in table.cumulative.tolist():
        ends = [index << table.slot_shift for index, count in enumerate(row) if count]
        # the first boundary after the first refresh tells its phase to within a slot; from then
        # on there is one in every 3,900 cycles
        first = ends[0]
        for index, count in enumerate(row):
            boundary = index << table.slot_shift
            elapsed = boundary - first
            expected = 0 if elapsed < 0 else elapsed // 3_900 + 1
            assert count // 160 - expected in (0, 1)
    phases = {row.index(160) for row in table.cumulative.tolist()}
    assert len(phases) > 1


def test_a_long_run_repeats_its_first_window() -> None:
    # 8,192 intervals of 1,000 cycles, rounded up to a power of two: 2**23 cycles
    spec = tiny_spec(jitter=(Jitter(JitterCause.VOLTAGE_DROOP, 1_000, 50),))
    table = Climate(spec, 2).at(range(3), 3 << 23).compute
    assert table is not None
    window = (1 << 23) >> table.slot_shift
    increments = np.diff(table.cumulative, axis=1)
    np.testing.assert_array_equal(increments[:, :window], increments[:, window : 2 * window])
    assert increments[:, :window].sum() > 0


def test_only_the_causes_asked_for_are_made() -> None:
    weather = Climate(tiny_spec(), 2).at(range(3), 10_000, [JitterCause.INTERRUPT])
    assert weather.host is not None
    assert weather.transfer is weather.compute is None


def test_two_recipes_under_one_seed_differ_by_themselves() -> None:
    """A recipe that computes 5 % longer, in other pieces: under one seed the runs rise and fall
    together, and the difference's spread is a small part of what two seeds would give."""
    spec = tiny_spec()
    runs = 400
    one, other = (
        busy(Role.COMPUTE, "tensor_core", cycles, pieces)
        for cycles, pieces in ((2_000_000, 40), (2_100_000, 7))
    )
    first, second, elsewhere = (
        weathered_cycles(costs, Climate(spec, seed), runs, FULL).astype(float)
        for costs, seed in ((one, 3), (other, 3), (other, 4))
    )
    assert np.corrcoef(first, second)[0, 1] > 0.99
    assert abs(np.corrcoef(first, elsewhere)[0, 1]) < 0.3
    assert (second - first).std() < 0.2 * (elsewhere - first).std()
    calm = [int(run_costs(costs).total_cycles[0]) for costs in (one, other)]
    assert (second - first).mean() == pytest.approx(calm[1] - calm[0], rel=0.1)
