"""The fit on a made-up device: known values come back, and what isn't known is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stages.calibration.fit import FitOptions, FitRow, fit
from stages.calibration.predict import Tuner, predict
from stages.errors import InputError
from stages.hardware.load import spec_of
from stages.plan.timing import plan_cycles
from tests.calibration.synthetic import (
    NAMES,
    measured_rows,
    synthetic_plans,
    true_values,
    tuner_of,
)


def test_known_values_come_back_within_a_percent() -> None:
    tuner = tuner_of(NAMES)
    found = fit(tuner, measured_rows(tuner), FitOptions(starts=2))
    for value, truth in zip(found.values, true_values(tuner), strict=True):
        assert value == pytest.approx(truth, rel=0.01)
    assert [estimate.warnings for estimate in found.estimates] == [()] * len(NAMES)


def test_noise_and_an_outlier_move_values_little_and_intervals_hold_the_truth() -> None:
    tuner = tuner_of(NAMES)
    noise = np.exp(np.random.default_rng(5).normal(0, 0.03, len(synthetic_plans())))
    noise[8] *= 1.6
    found = fit(tuner, measured_rows(tuner, noise.tolist()), FitOptions(starts=1))
    for estimate, truth in zip(found.estimates, true_values(tuner), strict=True):
        assert estimate.value == pytest.approx(truth, rel=0.15)
        assert estimate.interval.low < truth < estimate.interval.high


def test_equal_inputs_give_equal_fits_and_the_seed_only_moves_starts() -> None:
    tuner = tuner_of(NAMES[:2])
    rows = measured_rows(tuner_of(NAMES))
    one, other = (fit(tuner, rows, FitOptions(starts=2, seed=3)) for _ in range(2))
    assert one == other
    assert fit(tuner, rows, FitOptions(starts=2, seed=4)).cost == pytest.approx(one.cost, rel=0.02)


def test_a_parameter_that_no_row_depends_on_is_named() -> None:
    tuner = tuner_of(["memory.ddr.bandwidth", "host.call"])
    rows = measured_rows(tuner_of(["memory.ddr.bandwidth"]))
    bandwidth, call = sorted(
        fit(tuner, rows, FitOptions(starts=1)).estimates, key=lambda item: item.parameter.name,
        reverse=True,
    )  # fmt: skip
    assert bandwidth.warnings == ()
    assert call.warnings == ("no fitted row depends on it",)
    assert call.value == call.parameter.start, "nothing but its source speaks for a value"


def test_what_noisy_rows_leave_open_stays_near_the_spec() -> None:
    # of two that only their sum tells apart, neither runs off to make up for the other
    tuner = tuner_of(NAMES)
    rows = measured_rows(tuner)[:6]
    noise = np.exp(np.random.default_rng(2).normal(0, 0.2, len(rows)))
    noisy = [
        replace(row, measured_ns=row.measured_ns * x) for row, x in zip(rows, noise, strict=True)
    ]
    found = fit(tuner, noisy, FitOptions(starts=1))
    for estimate in found.estimates:
        parameter = estimate.parameter
        widest = max(estimate.value / parameter.start, parameter.start / estimate.value)
        assert widest < 8
        assert parameter.low < estimate.value


def test_parameters_that_the_rows_cannot_tell_apart_are_named() -> None:
    tuner = tuner_of(["memory.ddr.bandwidth", "memory.ddr.efficiency"])
    rows = measured_rows(tuner_of(["memory.ddr.bandwidth"]))
    found = fit(tuner, rows, FitOptions(starts=1))
    said = {estimate.parameter.name: estimate.warnings[0] for estimate in found.estimates}
    assert said == {
        "memory.ddr.bandwidth": "the rows can't tell it from memory.ddr.efficiency",
        "memory.ddr.efficiency": "the rows can't tell it from memory.ddr.bandwidth",
    }


def test_a_value_at_its_bound_is_named() -> None:
    tuner = tuner_of(["tensor_core.efficiency"])
    base = spec_of(tuner.document)
    faster = [FitRow(plan, predict(plan, base) * 0.7) for plan in synthetic_plans()]
    (estimate,) = fit(tuner, faster, FitOptions(starts=1)).estimates
    assert estimate.value == 1000
    assert "at its upper bound, 100 %" in estimate.warnings


def test_too_few_rows_are_refused() -> None:
    tuner = tuner_of(NAMES)
    with pytest.raises(InputError, match="4 rows to fit can't pin down 4 parameters") as refused:
        fit(tuner, measured_rows(tuner)[:4], FitOptions())
    assert "--fit" in refused.value.hint


def test_a_prediction_is_the_plans_cycles_in_time() -> None:
    tuner = tuner_of(NAMES)
    spec = spec_of(tuner.document)
    plan = synthetic_plans()[0]
    assert spec.clock_hz == 500_000_000
    assert predict(plan, spec) == 2 * plan_cycles(plan, spec)
    own = tuner.spec([parameter.start for parameter in tuner.parameters])
    assert predict(plan, own) == predict(plan, spec)


def test_a_tuned_spec_differs_from_the_base_in_its_values_alone() -> None:
    tuner = tuner_of(["memory.ddr.bandwidth"])
    base, tuned = spec_of(tuner.document), tuner.spec([1_000_000_007])
    assert tuned.ddr == replace(
        base.ddr, read_bandwidth=1_000_000_007, write_bandwidth=1_000_000_007
    )
    assert tuned.digest != base.digest
    same = {"ddr": base.ddr, "digest": base.digest, "sources": base.sources}
    assert replace(tuned, **same) == base


def test_two_tuners_of_one_spec_share_nothing() -> None:
    one, other = tuner_of(["driver.submit"]), tuner_of(["driver.submit"])
    before = str(other.document.data)
    Tuner(one.document, one.parameters).spec([123])
    assert str(one.document.data) == str(other.document.data) == before
