"""What a step's files say came of it: verdict, exit code, and the one figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flows.project.places import PairPlaces
from flows.steps.stage_calls import PASS, Stage
from stages.errors import Outcome
from stages.evaluation.verdict import Verdict
from stages.report.facts import (
    FAILED_OUTCOMES,
    GateFacts,
    StressFacts,
    ValidationFacts,
    facts_of,
)
from stages.report.figures import main_figure


@dataclass(frozen=True, slots=True)
class StepReport:
    """`outcome` is PASSED unless the verdict is FAIL."""

    verdict: str
    outcome: Outcome
    figure: str


def report_of(stage: Stage, places: PairPlaces) -> StepReport:
    """What the stage wrote in the places of its pair.

    Raises:
        InputError: its report is missing or damaged.
    """
    folder = folder_of(stage, places)
    kind = _WITH_VERDICT.get(stage)
    verdict = PASS if kind is None else str(facts_of(stage, folder, kind).verdict)
    failed = verdict == Verdict.FAIL
    outcome = FAILED_OUTCOMES[stage] if failed else Outcome.PASSED
    return StepReport(verdict, outcome, main_figure(stage, folder))


def folder_of(stage: Stage, places: PairPlaces) -> Path:
    """Where a stage writes."""
    return _FOLDERS[stage](places)


_WITH_VERDICT: dict[Stage, type[ValidationFacts] | type[GateFacts] | type[StressFacts]] = {
    Stage.VALIDATE: ValidationFacts,
    Stage.GATE: GateFacts,
    Stage.THERMAL_STRESS: StressFacts,
}

_FOLDERS: dict[Stage, Callable[[PairPlaces], Path]] = {
    Stage.NORMALIZE: lambda places: places.normalized,
    Stage.COMPILE: lambda places: places.package,
    Stage.VALIDATE: lambda places: places.validation,
    Stage.BENCHMARK: lambda places: places.benchmark,
    Stage.GATE: lambda places: places.gate,
    Stage.THERMAL_STRESS: lambda places: places.stress,
}
