"""The regressions find what they can express, and refuse what they can't fit."""

from __future__ import annotations

import pytest

from stages.calibration.regression import FORMS, SizedRow, held_out, leave_one_out
from stages.calibration.work import Work

_WORKS = [Work(10**7 * (3 + i * i), 10**5 * (7 + 5 * i % 11), 10**4 * (9 + i * 7 % 13))
          for i in range(10)]  # fmt: skip


def _linear(work: Work) -> float:
    return 2e5 + 3e-3 * work.macs + 0.5 * work.parameters + 4.0 * work.activations


def _power(work: Work) -> float:
    return 0.3 * work.macs**0.6 * work.parameters**0.2 * work.activations**0.1


@pytest.mark.parametrize(("form", "law"), [("linear", _linear), ("log_linear", _power)])
def test_a_form_predicts_what_follows_its_law(form: str, law) -> None:
    rows = [SizedRow(work, law(work)) for work in _WORKS]
    assert leave_one_out(rows, form) == pytest.approx(0, abs=1e-6)
    assert held_out(rows[::2], rows[1::2], form) == pytest.approx(0, abs=1e-6)


def test_another_law_leaves_an_error() -> None:
    rows = [SizedRow(work, _linear(work)) for work in _WORKS]
    error = leave_one_out(rows, "log_linear")
    assert error is not None
    assert error > 0.005


@pytest.mark.parametrize("form", FORMS)
def test_too_few_rows_have_no_error(form: str) -> None:
    rows = [SizedRow(work, _linear(work)) for work in _WORKS]
    assert leave_one_out(rows[:5], form) is None
    assert leave_one_out(rows[:6], form) is not None
    assert held_out(rows[:4], rows[4:], form) is None
    assert held_out(rows[:5], [], form) is None
