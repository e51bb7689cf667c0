"""A project and a model repository, with an engine that only pretends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from flows.project.requests import Pair
from flows.repositories.commit_plan import CommitRequest
from flows.repositories.commit_results import CommitResult
from flows.repositories.commit_run import process_commit
from flows.steps.board import Step, steps_of
from flows.steps.matrix_request import MatrixRequest, MatrixResult, Standing, StepAnswer
from flows.steps.stage_calls import Stage
from flows.terminal.terminal import Terminal
from stages.errors import Outcome
from tests.flows.fake_matrix import FakeMatrix
from tests.flows.git_repositories import Repository, make_project, tiny_model

DEVICES = ("npu_a", "npu_b")


class Commits:
    """A project and a model repository; the engine writes reports without running anything."""

    def __init__(self, folder: Path) -> None:
        self.own, self.project = make_project(folder / "project")
        self.models = Repository.make(folder / "team models")
        self.own.write("hardware_specs/npu_b.yaml", "name: npu_b\n")
        self.configure()
        self.own.write("params.yaml", f"matrix:\n  models: [own]\n  hardware: {list(DEVICES)}\n")
        self.own.commit()
        self.refused: set[Pair] = set()
        self.failed: dict[Pair, Stage] = {}
        self.unreachable: set[Pair] = set()
        self.requests: list[MatrixRequest] = []
        self.params: list[Any] = []
        self.placed: list[list[str]] = []
        self.baselines: list[list[str]] = []

    def configure(self, **settings: object) -> None:
        self.own.write(
            "models/repositories.yaml",
            yaml.safe_dump({"team": {"url": str(self.models.folder), **settings}}),
        )

    def add(self, *names: str, seed: int = 0) -> None:
        for at, name in enumerate(names):
            self.models.write(f"nets/{name}.onnx", tiny_model(seed + at)[0])

    def run_matrix(self, request: MatrixRequest, _terminal: Terminal) -> MatrixResult:
        """Stands for the engine."""
        self.requests.append(request)
        root = request.root
        self.params.append(yaml.safe_load((root / "params.yaml").read_text())["matrix"])
        self.placed.append(sorted(path.parent.name for path in root.glob("models/*/*.onnx")))
        self.baselines.append(
            sorted(str(path.relative_to(root)) for path in root.glob("baselines/*/*"))
        )
        pairs = sorted(request.pairs or (), key=lambda pair: (pair.model, pair.hardware))
        matrix = FakeMatrix(root, *pairs)
        matrix.refused, matrix.failed = self.refused, self.failed
        result = matrix.run()
        answers = dict(result.answers)
        for pair in self.unreachable.intersection(pairs):
            answers |= {step: _unreachable(step) for step in steps_of(pair)[3:]}
        return MatrixResult(root, answers)

    def process(self, **asked: Any) -> CommitResult:
        request = CommitRequest("team", **asked)
        return process_commit(self.project, request, Terminal(quiet=True), self.run_matrix)

    def ran(self, **asked: Any) -> dict[str, str]:
        """Runs; what happened to each model that ran."""
        return {row.pair.model: row.change for row in self.process(**asked).rows}


def _unreachable(step: Step) -> StepAnswer:
    if step.stage is Stage.BENCHMARK:
        return StepAnswer(step, Standing.FAILED, Outcome.DEVICE_ERROR, "no answer from the board")
    return StepAnswer(step, Standing.SKIPPED, Outcome.PASSED, "")
