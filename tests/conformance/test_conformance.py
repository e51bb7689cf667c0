"""A sample of ONNX's node tests; `python -m tests.conformance` runs them all."""

from collections import Counter

import pytest

from stages.hardware.load import find_spec, load_spec
from tests.conformance.cases import load_cases
from tests.conformance.judge import Outcome, Verdict, judge
from tests.conformance.report import general, write_report

STRIDE = 17
"""One in so many tests is run here."""


@pytest.fixture(scope="module")
def outcomes(repository):
    spec = load_spec(find_spec("npu_tiny", repository / "hardware_specs"))
    return [judge(case, spec) for case in load_cases()[::STRIDE]]


def test_no_result_is_wrong_and_no_test_breaks_the_compiler(outcomes):
    assert len(outcomes) > 100
    bad = [outcome for outcome in outcomes if outcome.verdict in (Verdict.WRONG, Verdict.BROKEN)]
    assert not bad


def test_most_run_on_the_device_and_every_other_says_why(outcomes):
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    assert verdicts[Verdict.DEVICE] > len(outcomes) // 2
    assert all(outcome.reason for outcome in outcomes if outcome.verdict is not Verdict.DEVICE)


def test_reasons_are_grouped_without_names_and_numbers():
    refused = "'x' has axis 2 whose extent can't be told"
    outcomes = [
        Outcome("a", "Slice", Verdict.REFUSED, refused),
        Outcome("b", "Slice", Verdict.REFUSED, refused.replace("'x'", "'y'").replace("2", "1")),
        Outcome("c", "Relu", Verdict.DEVICE),
    ]
    page = write_report(outcomes, "npu_tiny")
    assert f"| {general(refused)} | 2 | Slice |" in page
    assert "| device | 1 |" in page
    assert "| Relu | 1 |" in page
