"""Each stage in a process of its own: results, refusals, bugs, crashes, interruptions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from flows.running.stage_process import StageProcesses
from flows.steps.stage_calls import Stage, StageFailure, StageResult
from stages.errors import Outcome
from tests.flows import fake_stages


def ignore() -> None:
    """Nobody asked when the stage began."""


@pytest.fixture(scope="module")
def processes() -> Iterator[StageProcesses]:
    made = StageProcesses(jobs=2)
    yield made
    made.stop()


def test_a_result_comes_back(processes: StageProcesses) -> None:
    answer = processes.run(partial(fake_stages.passed, Stage.COMPILE, "12 groups"), ignore)
    assert isinstance(answer, StageResult)
    assert (answer.stage, answer.figure) == (Stage.COMPILE, "12 groups")


def test_a_refusal_keeps_its_exit_code_and_words(processes: StageProcesses) -> None:
    answer = processes.run(fake_stages.refused, ignore)
    assert answer == StageFailure(
        Outcome.COMPILE_REFUSED, "%x needs 9 bytes more\nat: conv1\nhint: use a smaller tile"
    )


def test_a_bug_brings_its_traceback(processes: StageProcesses) -> None:
    answer = processes.run(fake_stages.broken, ignore)
    assert isinstance(answer, StageFailure)
    assert answer.outcome is Outcome.INTERNAL_ERROR
    assert "fake_stages.py" in answer.details


def test_a_crash_says_which_signal_and_leaves_the_others_alone(processes: StageProcesses) -> None:
    answers: list[StageResult | StageFailure] = []
    other = threading.Thread(
        target=lambda: answers.append(
            processes.run(partial(fake_stages.passed, Stage.GATE, "fine", 0.5), ignore)
        )
    )
    other.start()
    crashed = processes.run(fake_stages.crashed, ignore)
    other.join()
    assert isinstance(crashed, StageFailure)
    assert crashed.outcome is Outcome.INTERNAL_ERROR
    assert "SIGSEGV" in crashed.message
    assert isinstance(answers[0], StageResult)


def test_no_more_than_jobs_run_at_a_time() -> None:
    processes = StageProcesses(jobs=1)
    call = partial(fake_stages.passed, Stage.GATE, "fine", 0.3)
    threads = [threading.Thread(target=processes.run, args=(call, ignore)) for _ in range(3)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    processes.stop()
    assert time.monotonic() - began >= 0.9


@pytest.mark.parametrize("slow", [fake_stages.slow, fake_stages.slow_inside_an_extension])
def test_stopping_lets_a_stage_tidy_up_and_starts_no_other(
    slow: Callable[[Path], StageResult], tmp_path: Path
) -> None:
    processes = StageProcesses(jobs=1)
    marker = tmp_path / "half"
    answers: list[StageResult | StageFailure] = []
    threads = [
        threading.Thread(
            target=lambda: answers.append(processes.run(partial(slow, marker), ignore))
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    while not marker.exists():
        time.sleep(0.01)
    began = time.monotonic()
    processes.stop()
    for thread in threads:
        thread.join()
    assert time.monotonic() - began < fake_stages.SLOW_SECONDS / 2
    assert not marker.exists()
    assert {answer.outcome for answer in answers} == {Outcome.INTERRUPTED}
    assert not any(answer.details for answer in answers if isinstance(answer, StageFailure))
