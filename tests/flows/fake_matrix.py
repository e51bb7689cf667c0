"""A matrix that was run without running it: reports on disk, and the engine's answers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from flows.project.requests import Pair
from flows.steps.board import Step, steps_of
from flows.steps.matrix_request import MatrixResult, Standing, StepAnswer
from flows.steps.stage_calls import Stage
from stages.errors import Outcome
from stages.package.manifest import DIGESTED, MANIFEST, FileFacts, Manifest, print_manifest
from tests.flows.sample_reports import LATENCY, REPORTS, write_report

FAILED_STAGES = {
    Stage.VALIDATE: Outcome.VALIDATION_FAILED,
    Stage.GATE: Outcome.GATE_FAILED,
    Stage.THERMAL_STRESS: Outcome.STRESS_FAILED,
}


class FakeMatrix:
    """Pairs to answer for. What is left out of `refused`, `failed` and `standing` ran and passed.

    `refused` pairs have no recipe; `failed` names the stage whose verdict is FAIL.
    """

    def __init__(self, root: Path, *pairs: Pair) -> None:
        self.root = root
        self.pairs = pairs
        self.refused: set[Pair] = set()
        self.failed: dict[Pair, Stage] = {}
        self.p99_ns: dict[Pair, int] = {}
        self.standing = Standing.RAN

    def run(self) -> MatrixResult:
        """Writes the reports and answers."""
        answers: dict[Step, StepAnswer] = {}
        for pair in self.pairs:
            for step in steps_of(pair):
                answers[step] = self._answer(step, pair)
        result = MatrixResult(self.root, answers)
        for pair in self.pairs:
            self._write(result, pair)
        return result

    def _answer(self, step: Step, pair: Pair) -> StepAnswer:
        if pair in self.refused and step.stage is not Stage.NORMALIZE:
            if step.stage is not Stage.COMPILE:
                return StepAnswer(step, Standing.SKIPPED, Outcome.PASSED, "")
            refusal = "tensor %a can't fit\nat: conv1\nhint: a smaller one"
            return StepAnswer(step, Standing.FAILED, Outcome.COMPILE_REFUSED, refusal)
        if self.failed.get(pair) is step.stage:
            return StepAnswer(step, self.standing, FAILED_STAGES[step.stage], "over the limit")
        return StepAnswer(step, self.standing, Outcome.PASSED, "fine", 0.5)

    def _write(self, result: MatrixResult, pair: Pair) -> None:
        places = result.places(pair)
        write_report("normalize", places.normalized)
        if pair in self.refused:
            return
        places.package.mkdir(parents=True, exist_ok=True)
        (places.package / MANIFEST).write_text(print_manifest(manifest_of(pair)))
        latency = LATENCY | {"p99_ns": self.p99_ns.get(pair, LATENCY["p99_ns"])}
        changes: Mapping[Stage, dict[str, object]] = {Stage.BENCHMARK: {"latency": latency}}
        for stage, folder in (
            (Stage.VALIDATE, places.validation),
            (Stage.BENCHMARK, places.benchmark),
            (Stage.GATE, places.gate),
            (Stage.THERMAL_STRESS, places.stress),
        ):
            verdict = {"verdict": "FAIL"} if self.failed.get(pair) is stage else {}
            report = REPORTS[stage.value] | changes.get(stage, {}) | verdict
            write_report(stage.value, folder, report)


def manifest_of(pair: Pair) -> Manifest:
    """The manifest of a pair's package."""
    digest = hashlib.sha256(repr(pair).encode()).hexdigest()
    return Manifest(
        model=pair.model,
        model_sha256=digest,
        hardware=pair.hardware,
        hardware_version="1.0",
        hardware_sha256=hashlib.sha256(pair.hardware.encode()).hexdigest(),
        compiler_version="1",
        recipe_sha256=digest,
        files={name: FileFacts(1, digest) for name in DIGESTED},
    )
