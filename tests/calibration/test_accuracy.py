"""The accuracy of a chip, and the page about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stages.calibration.accuracy import (
    ChipAccuracy,
    CompiledRow,
    LeftOut,
    assess,
    figures_of,
    figures_of_own,
)
from stages.calibration.accuracy_page import (
    NO_CASCADES,
    Context,
    accuracy_page,
    chip_plot,
)
from stages.calibration.fit import FitOptions
from stages.calibration.measurements import Measurement, Precision, Use, by_turns
from stages.calibration.plans import Compiled
from stages.calibration.predict import predict
from stages.calibration.work import Work
from tests.calibration.synthetic import measured_rows, tuner_of

NAME = "memory.ddr.bandwidth"
LEFT_OUT = LeftOut(
    Measurement("huge", Precision.W8A16, 1, 1e6, "mean", "s", Use.FIT, 9), "for a reason"
)


def rows() -> list[CompiledRow]:
    measured = measured_rows(tuner_of([NAME]))
    names = [f"net_{index:02}" for index in range(len(measured))]
    uses = by_turns([(name, "fp16") for name in names])
    return [
        CompiledRow(
            Measurement(name, Precision.FP16, 1, row.measured_ns, "mean", "s", use, index),
            Compiled(
                row.plan, Work(10**6 + index * 1000, 100 + index**2, 7 + index % 3), index % 2
            ),
        )
        for index, (name, row, use) in enumerate(zip(names, measured, uses, strict=True))
    ]


@pytest.fixture(scope="module")
def chip() -> ChipAccuracy:
    everything = rows()
    elsewhere = {"npu_tiny-board": (everything[:4], [LEFT_OUT])}
    options = FitOptions(starts=1)
    return assess(tuner_of([NAME]), everything, [LEFT_OUT], elsewhere, options)


def page(chip: ChipAccuracy) -> str:
    rows = ("npu_tiny", Precision.FP16)
    context = Context({rows: 0.08}, 0.2, 0.97, {rows: 0.13}, ["npu_unknown"], {})
    return accuracy_page([chip], context, "plots")


def test_the_fit_sees_half_and_predicts_the_others(chip: ChipAccuracy) -> None:
    assert chip.fit is not None
    judged = figures_of(chip.rows, Precision.FP16, Use.JUDGE)
    shipped = figures_of(chip.rows, None, Use.JUDGE, shipped=True)
    assert judged is not None
    assert shipped is not None
    assert judged.count == len(rows()) // 2
    assert judged.mape < 0.01 < 0.03 < shipped.mape
    assert judged.spearman == pytest.approx(1, abs=0.03)
    assert figures_of(chip.rows, Precision.INT8, None) is None


def test_rows_are_predicted_by_the_fitted_spec(chip: ChipAccuracy) -> None:
    assert chip.fit is not None
    spec = chip.tuner.spec(chip.fit.values)
    for item, given in zip(chip.rows, rows(), strict=True):
        assert item.predicted_ns == predict(given.compiled.plan, spec)
        assert item.shipped_ns == predict(given.compiled.plan, chip.spec)
    assert [item.predicted_ns for item in chip.judge_sets[0].rows] == [
        item.predicted_ns for item in chip.rows[:4]
    ]


def test_too_few_rows_leave_the_shipped_spec() -> None:
    chip = assess(tuner_of([NAME]), rows()[:2], [], {}, FitOptions())
    assert chip.fit is None
    assert all(item.predicted_ns == item.shipped_ns for item in chip.rows)
    assert "1 rows to fit can't pin down 1 parameters" in page(chip)


def test_the_page_says_everything(chip: ChipAccuracy) -> None:
    text = page(chip)
    assert chip.fit is not None
    (estimate,) = chip.fit.estimates
    for item in chip.rows:
        assert f"| {item.row.model} | fp16 | {item.row.use} |" in text
    for phrase in (
        "≤ 8 %, met",
        "| 13.0 %, beaten | 1 |",
        f"| {NO_CASCADES} |",
        f"`memory.ddr.bandwidth` | 4 GB/s | {estimate.parameter.text(estimate.value)}",
        "Left out, for a reason: huge (w8a16).",
        "### Judged only: `npu_tiny-board`",
        "without a spec here: npu_unknown",
        "![Predicted over measured latency of npu_tiny](plots/npu_tiny.svg)",
    ):
        assert phrase in text, phrase
    assert "nan" not in text
    tables = [line for line in text.splitlines() if line.startswith("| ")]
    assert all(line.endswith(" |") for line in tables)


def test_the_column_with_cascades_needs_a_plan_of_every_row(chip: ChipAccuracy) -> None:
    assert chip.fit is not None
    fitted = chip.tuner.spec(chip.fit.values)
    assert figures_of_own(chip.rows, None, Use.JUDGE) is None
    plans = [replace(item, own=item.compiled.plan) for item in rows()]
    both = assess(chip.tuner, plans, [], {}, FitOptions(starts=1))
    assert [item.own_ns for item in both.rows] == [predict(i.own, fitted) for i in plans if i.own]
    assert figures_of_own(both.rows, None, Use.JUDGE) == figures_of(both.rows, None, Use.JUDGE)
    text = page(both)
    assert NO_CASCADES not in text.split("\n## ")[1]
    some = assess(chip.tuner, [*plans[:-1], rows()[-1]], [], {}, FitOptions(starts=1))
    used = plans[-1].row.use
    assert figures_of_own(some.rows, None, used) is None


def test_equal_facts_give_equal_bytes(chip: ChipAccuracy) -> None:
    assert page(chip) == page(chip)
    assert chip_plot(chip) == chip_plot(chip)
    assert "npu_tiny: predicted over measured latency" in str(chip_plot(chip))


def test_without_rows_there_is_no_plot() -> None:
    chip = assess(tuner_of([NAME]), [], [LEFT_OUT], {}, FitOptions())
    assert chip_plot(chip) is None
    assert "Left out" in page(chip)
