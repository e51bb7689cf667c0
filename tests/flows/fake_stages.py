"""Stage calls with known answers, for tests of what runs stages."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from flows.project.requests import RunRequest
from flows.steps.board import Step
from flows.steps.stage_calls import Stage, StageCall, StageResult
from stages.errors import CompileError, DeviceError, Outcome
from stages.report.facts import FOLDERS
from tests.flows.sample_reports import write_report

SLOW_SECONDS = 60.0


def passed(stage: Stage, figure: str = "fine", seconds: float = 0.0) -> StageResult:
    """Passes after a while."""
    time.sleep(seconds)
    return StageResult(stage, "PASS", Outcome.PASSED, figure, seconds)


def gate_failed() -> StageResult:
    """An answer that is no."""
    return StageResult(Stage.GATE, "FAIL", Outcome.GATE_FAILED, "P99 +9 %", 0.0)


def refused() -> StageResult:
    """An error that the user can mend."""
    raise CompileError("%x needs 9 bytes more", where="conv1", hint="use a smaller tile")


def broken() -> StageResult:
    """A bug of ours."""
    raise ZeroDivisionError("division by zero")


def crashed() -> StageResult:
    """A crash in native code."""
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError("unreachable")


def slow(marker: Path) -> StageResult:
    """Runs for a minute unless it is interrupted; tidies up either way."""
    try:
        marker.write_text("half written")
        time.sleep(SLOW_SECONDS)
    finally:
        marker.unlink()
    return passed(Stage.COMPILE)


def reachable_at_last(attempts: Path, stage: Stage) -> StageResult:
    """A device that answers the second time."""
    with attempts.open("a") as stream:
        stream.write("x")
    if len(attempts.read_text()) < 2:
        raise DeviceError("the device doesn't answer", hint="plug it in")
    return passed(stage)


@dataclass(frozen=True, slots=True)
class Calls:
    """Every step passes after `seconds`, but for the special ones."""

    special: dict[Step, StageCall] = field(default_factory=dict)
    seconds: float = 0.0

    def __call__(self, step: Step, request: RunRequest) -> StageCall:
        if step.hardware:
            folder = request.out / step.hardware / step.model / FOLDERS[step.stage.value]
            write_report(step.stage.value, folder)
        return self.special.get(step) or partial(passed, step.stage, "fine", self.seconds)


def slow_inside_an_extension(marker: Path) -> StageResult:
    """Slow, and turns the interrupt into an error of its own, as extensions do on import."""
    try:
        marker.write_text("half written")
        time.sleep(SLOW_SECONDS)
    except KeyboardInterrupt as interrupt:
        raise ImportError("initialization failed") from interrupt
    finally:
        marker.unlink()
    return passed(Stage.COMPILE)
