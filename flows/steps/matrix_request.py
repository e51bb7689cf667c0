"""What is asked of the matrix, and what came of it, step by step. Knows neither DVC nor Prefect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from flows.project.places import PairPlaces
from flows.project.requests import Pair
from flows.steps.board import Step, steps_of
from flows.steps.stage_calls import Stage
from flows.terminal.outcomes import worst
from flows.terminal.terminal import Terminal
from stages.errors import Outcome
from stages.report.facts import PairFacts, gather_facts

RESULTS_FOLDER = "results"
LOCK_FILE = Path(".dvc", "tmp", "recipe-run.lock")
"""Held by who brings a folder up to date."""


def places_in(root: Path, model: str, hardware: str = "") -> PairPlaces:
    """Where the matrix of a folder keeps a pair's files, or without a device those that all
    devices share."""
    return PairPlaces(root / RESULTS_FOLDER, model, hardware)


class Standing(StrEnum):
    """How a step came to its outputs, or didn't."""

    FRESH = "fresh"
    """Nothing that it depends on had changed."""
    RESTORED = "restored"
    """The run-cache had its outputs."""
    RAN = "ran"
    FAILED = "failed"
    """Its command gave no result."""
    SKIPPED = "skipped"
    """A step that it needs gave none."""


WITH_OUTPUTS = frozenset({Standing.FRESH, Standing.RESTORED, Standing.RAN})


@dataclass(frozen=True, slots=True)
class MatrixRequest:
    """Bring these pairs up to date in a folder that holds dvc.yaml.

    `pairs` None means all of dvc.yaml's. Steps of the `forced` stages run even where they are
    fresh. `jobs` None means one a core. `tags` mark the flow run in Prefect.
    """

    root: Path
    pairs: frozenset[Pair] | None = None
    forced: frozenset[Stage] = frozenset()
    jobs: int | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """What came of a step.

    `outcome` tells a verdict FAIL in its report too; `message` is its figure, or the error;
    `seconds` is the wall time of its command.
    """

    step: Step
    standing: Standing
    outcome: Outcome
    message: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class MatrixResult:
    """The answers of all steps that were asked for, in the order of the graph.

    `spans` says when commands ran, from and to, in seconds of a clock that only goes forward.
    """

    root: Path
    answers: Mapping[Step, StepAnswer]
    spans: tuple[tuple[float, float], ...] = ()

    def pairs(self) -> tuple[Pair, ...]:
        """All pairs, in the order of the graph."""
        steps = [step for step in self.answers if step.hardware]
        return tuple(dict.fromkeys(Pair(step.model, step.hardware) for step in steps))

    def places(self, pair: Pair) -> PairPlaces:
        """Where the pair's files lie."""
        return places_in(self.root, pair.model, pair.hardware)

    def answers_of(self, pair: Pair) -> list[StepAnswer]:
        """The pair's answers in the order of the stages."""
        return [self.answers[step] for step in steps_of(pair) if step in self.answers]

    def outcome_of(self, pair: Pair) -> Outcome:
        """The worst outcome of a pair."""
        return worst(answer.outcome for answer in self.answers_of(pair))

    @property
    def outcome(self) -> Outcome:
        """The worst of all."""
        return worst(answer.outcome for answer in self.answers.values())

    def facts(self, pair: Pair) -> PairFacts:
        """The reports of the stages that have outputs.

        Raises:
            InputError: a report is missing or damaged.
        """
        done = {a.step.stage.value for a in self.answers_of(pair) if a.standing in WITH_OUTPUTS}
        return gather_facts(self.places(pair).folder, done)


MatrixRunner = Callable[[MatrixRequest, Terminal], MatrixResult]
"""The engine, for those who know nothing of Prefect."""
