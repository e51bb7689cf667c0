"""What is known so far in a run: the result of each step, and the step's call."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from functools import partial

from flows.project.requests import Pair, RunRequest
from flows.steps import stage_calls
from flows.steps.chain import CHAIN
from flows.steps.stage_calls import Stage, StageCall, StageFailure, StageResult
from stages.errors import Outcome


@dataclass(frozen=True, slots=True)
class Step:
    """One stage of one pair; `hardware` is empty for normalize, which all devices share."""

    stage: Stage
    model: str
    hardware: str = ""

    @property
    def subject(self) -> str:
        """The model, and the device where there is one."""
        return f"{self.model} on {self.hardware}" if self.hardware else self.model


Answer = StageResult | StageFailure


@dataclass(slots=True)
class Board:
    """Answers by step. Steps are written from many threads."""

    answers: dict[Step, Answer] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def post(self, step: Step, answer: Answer) -> None:
        """Keeps an answer; a second attempt replaces the first."""
        with self._lock:
            self.answers[step] = answer

    def result(self, step: Step) -> StageResult | None:
        """The step's result, or None where it has none."""
        answer = self.answers.get(step)
        return answer if isinstance(answer, StageResult) else None

    def outcomes(self) -> list[Outcome]:
        """Of all steps that ran."""
        return [answer.outcome for answer in self.answers.values()]


def steps_of(pair: Pair) -> list[Step]:
    """The six steps of a pair, in order."""
    return [_step(link.stage, pair) for link in CHAIN]


def needs_of(step: Step) -> list[Step]:
    """The steps whose files this one reads."""
    link = next(link for link in CHAIN if link.stage is step.stage)
    return [_step(stage, Pair(step.model, step.hardware)) for stage in link.needs]


def _step(stage: Stage, pair: Pair) -> Step:
    return Step(stage, pair.model, "" if stage is Stage.NORMALIZE else pair.hardware)


def call_of(step: Step, request: RunRequest) -> StageCall:
    """The stage's call for the step, with the run's folders and parameters."""
    pair = Pair(step.model, step.hardware)
    places, params = request.places(pair), request.params
    if step.stage is Stage.NORMALIZE:
        model = request.model(step.model)
        return partial(
            stage_calls.normalize, model, places.normalized, dict(request.bindings), params
        )
    spec = request.spec(step.hardware)
    match step.stage:
        case Stage.COMPILE:
            return partial(
                stage_calls.compile_package,
                places.normalized,
                spec,
                places.package,
                request.quantization,
                stage_calls.CompileChoices(store=request.project.decisions),
            )
        case Stage.VALIDATE:
            return partial(
                stage_calls.validate,
                places.package,
                places.normalized,
                spec,
                places.validation,
                params,
            )
        case Stage.BENCHMARK:
            return partial(stage_calls.benchmark, places.package, spec, places.benchmark, params)
        case Stage.GATE:
            return partial(
                stage_calls.gate,
                places.benchmark,
                places.validation,
                request.baseline(pair),
                places.gate,
                params,
            )
        case Stage.THERMAL_STRESS:
            return partial(stage_calls.thermal_stress, places.package, spec, places.stress, params)


@dataclass(slots=True)
class Clock:
    """Wall time of a run, and how much of it no stage was running."""

    started: float = field(default_factory=time.monotonic)
    spans: list[tuple[float, float]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @staticmethod
    def now() -> float:
        """Seconds of the clock that `spans` use."""
        return time.monotonic()

    def note(self, start: float, stop: float) -> None:
        """Notes when a stage ran."""
        with self._lock:
            self.spans.append((start, stop))

    def busy_seconds(self) -> float:
        """Time in which at least one stage ran."""
        busy, covered = 0.0, 0.0
        for start, stop in sorted(self.spans):
            busy += max(0.0, stop - max(start, covered))
            covered = max(covered, stop)
        return busy

    def idle_seconds(self) -> float:
        """Time since the start in which no stage ran: the flow engine's share, and ours."""
        return self.now() - self.started - self.busy_seconds()
