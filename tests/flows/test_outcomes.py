"""Exit codes and their order."""

from __future__ import annotations

import itertools

import pytest

from flows.terminal.outcomes import GRAVITY, MEANINGS, exit_code_lines, printable, report_bug, worst
from stages.errors import Outcome


def test_every_outcome_has_a_meaning_and_a_place_in_the_order() -> None:
    assert set(MEANINGS) == set(Outcome)
    assert sorted(GRAVITY) == sorted(Outcome)


def test_the_order_is_that_which_merges_are_blocked_by() -> None:
    """Written here once more: a change of it changes verdicts, and shouldn't come by accident."""
    unknown = "INTERRUPTED INTERNAL_ERROR BAD_INPUT BAD_HARDWARE_SPEC BAD_PACKAGE DEVICE_ERROR"
    unknown += " UNDECIDED"
    bad = "COMPILE_REFUSED VALIDATION_FAILED GATE_FAILED STRESS_FAILED"
    assert " ".join(outcome.name for outcome in GRAVITY) == f"{unknown} {bad} PASSED"


def test_the_worst_of_two_is_the_one_named_first() -> None:
    for graver, lighter in itertools.combinations(GRAVITY, 2):
        assert worst([lighter, graver]) is graver
    assert worst([]) is Outcome.PASSED


def test_exit_code_lines_name_every_number() -> None:
    assert [int(line.split()[0]) for line in exit_code_lines()] == [code.value for code in Outcome]


def test_control_characters_are_shown_and_not_sent() -> None:
    assert printable("a\x1b[31mb\r\nc\u202ed") == "a\\x1b[31mb\\r\nc\\u202ed"


def test_a_bug_is_ours_and_shows_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        raise ZeroDivisionError("boom")
    assert report_bug(raised.value) is Outcome.INTERNAL_ERROR
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "boom" in shown
    assert "bug of the recipe pipeline" in shown
