"""Stage calls with known answers, for tests of what runs stages."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path

from flows.board import Step
from flows.requests import RunRequest
from flows.stage_calls import Stage, StageResult
from flows.stage_process import StageCall
from stages.errors import CompileError, Outcome


def passed(stage: Stage, figure: str = "fine", seconds: float = 0.0) -> StageResult:
    time.sleep(seconds)
    return StageResult(stage, "PASS", Outcome.PASSED, figure, seconds)


def gate_failed() -> StageResult:
    return StageResult(Stage.GATE, "FAIL", Outcome.GATE_FAILED, "P99 +9 %", 0.0)


def refused() -> StageResult:
    raise CompileError("%x needs 9 bytes more", where="conv1", hint="use a smaller tile")


def broken() -> StageResult:
    raise ZeroDivisionError("division by zero")


def crashed() -> StageResult:
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError("unreachable")


def slow(marker: Path) -> StageResult:
    """Runs for a minute unless it is interrupted; tidies up either way."""
    marker.write_text("half written")
    try:
        time.sleep(60)
    finally:
        marker.unlink()
    return passed(Stage.COMPILE)


def all_pass(step: Step, _request: RunRequest) -> StageCall:
    return partial(passed, step.stage)
