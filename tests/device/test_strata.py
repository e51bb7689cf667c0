"""Draws spread over the runs: each as random as ever, together even."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import kstest
from scipy.stats.qmc import Sobol

from stages.device.latencies import Latencies
from stages.device.strata import BLOCK_RUNS, DIMENSIONS, Strata, _net
from stages.device.weather import Climate
from stages.hardware.spec import Jitter, JitterCause
from stages.plan.costs import Costs, Role
from tests.device.specs import tiny_spec

Words = NDArray[np.uint64]


def drawn(seed: int, stream: int, runs: range) -> NDArray[np.float64]:
    """Words as numbers in [0, 1), float64[runs, 3]."""
    strata = Strata(seed, stream)
    own = np.random.default_rng([seed, stream]).integers(
        0, 2**64, (len(runs), DIMENSIONS), dtype=np.uint64
    )
    words = [strata.words(run, own[row]) for row, run in enumerate(runs)]
    return np.array(words, dtype=np.float64) / 2.0**64


def test_the_net_is_sobols() -> None:
    expected = Sobol(DIMENSIONS, scramble=False).random(BLOCK_RUNS) * BLOCK_RUNS
    assert sorted(_net().tolist()) == sorted(expected.astype(np.uint64).tolist())


def test_a_block_fills_every_stratum_once() -> None:
    points = drawn(7, 2, range(BLOCK_RUNS))
    for column in (points * BLOCK_RUNS).astype(int).T:
        assert sorted(column.tolist()) == list(range(BLOCK_RUNS))
    # and every box of a 32 x 32 grid, for two dimensions of them
    boxes = (points[:, :2] * 32).astype(int)
    assert len({tuple(box) for box in boxes.tolist()}) == BLOCK_RUNS


def test_one_run_over_many_seeds_is_uniform() -> None:
    for run in (0, 1, 500):
        column = np.array([drawn(seed, 1, range(run, run + 1))[0] for seed in range(400)])
        for dimension in range(DIMENSIONS):
            assert kstest(column[:, dimension], "uniform").pvalue > 1e-3


def test_neighbours_and_causes_are_independent() -> None:
    points, other = drawn(3, 1, range(BLOCK_RUNS)), drawn(3, 2, range(BLOCK_RUNS))
    for one, two in ((points[:-1], points[1:]), (points, other)):
        for dimension in range(DIMENSIONS):
            correlation = np.corrcoef(one[:, dimension], two[:, dimension])[0, 1]
            assert abs(correlation) < 4 / BLOCK_RUNS**0.5


def test_a_run_has_its_words_in_whatever_order() -> None:
    own = np.arange(DIMENSIONS, dtype=np.uint64)
    one, other = Strata(5, 1), Strata(5, 1)
    first = [one.words(run, own).tolist() for run in (0, 2_000, 7)]
    again = [other.words(run, own).tolist() for run in (7, 0, 2_000)]
    assert first == [again[1], again[2], again[0]]
    assert first[1] != one.words(2_000 - BLOCK_RUNS, own).tolist()


def tails(independent: bool, monkeypatch: pytest.MonkeyPatch) -> NDArray[np.float64]:
    """P99 of 1,000 runs of 50 us for each of 10 seeds."""
    if independent:

        def unspread(self: Strata, run: int, own: Words) -> Words:
            return own

        monkeypatch.setattr(Strata, "words", unspread)
    spec = tiny_spec(
        jitter=(
            Jitter(JitterCause.INTERRUPT, interval_ns=4_000_000, stall_ns=4_000),
            Jitter(JitterCause.VOLTAGE_DROOP, interval_ns=20_000, stall_ns=400),
        )
    )
    costs = Costs(
        ("tensor_core",), [Role.COMPUTE], [0], [30_000], [0], [0], [0], [-1], 20_000, 0, 1, False
    )
    return np.array(
        [
            np.sort(Latencies(costs, Climate(spec, seed), 1_000).at(Fraction(1)))[989]
            for seed in range(10)
        ],
        dtype=np.float64,
    )


def test_the_tail_of_short_runs_depends_less_on_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    spread = tails(False, monkeypatch)
    independent = tails(True, monkeypatch)
    assert spread.std() < 0.75 * independent.std()
    assert np.ptp(spread) / spread.min() < 0.05
    # and is the same on average
    error = independent.std() / len(independent) ** 0.5
    assert abs(spread.mean() - independent.mean()) < 3 * error
