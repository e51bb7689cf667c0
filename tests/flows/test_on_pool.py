"""What is handed to workers: the project's commit, and only what is stale."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flows.project.places import Project
from flows.project.requests import Pair
from flows.steps.matrix_request import RESULTS_FOLDER, MatrixRequest, MatrixResult
from flows.steps.stage_calls import Stage
from flows.terminal.terminal import Terminal
from flows.workers import on_workers
from flows.workers.on_workers import WorkersRequest, model_bytes, run_on_pool, stale_pairs
from flows.workers.shard_parameters import Checkout, Crew
from stages.errors import InputError
from tests.flows.copied_matrix import make_project, run_all

PAIRS = [Pair(model, hardware) for model in ("m1", "m2") for hardware in ("h1", "h2")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project", ("m1", "m2"), ("h1", "h2"))


def test_workers_get_the_commit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[WorkersRequest] = []

    def run_on_workers(request: WorkersRequest, _terminal: Terminal) -> MatrixResult:
        asked.append(request)
        return MatrixResult(root, {})

    monkeypatch.setattr(on_workers, "run_on_workers", run_on_workers)
    matrix, params = MatrixRequest(root, jobs=3), {"seed": 7}
    run_on_pool(Crew(2, "machines"), Project(root), matrix, params, Terminal(quiet=True))
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True
    ).stdout.strip()
    (request,) = asked
    assert request.checkout == Checkout("", head, params, 3)
    assert (request.place, request.shards, request.matrix) == ("machines", 2, matrix)


def test_a_file_that_differs_from_the_commit_is_refused(root: Path) -> None:
    (root / "new").write_text("new")
    with pytest.raises(InputError, match="1 files differ"):
        run_on_pool(
            Crew(2, "machines"), Project(root), MatrixRequest(root), {}, Terminal(quiet=True)
        )


def test_only_stale_pairs_are_dealt_out(root: Path) -> None:
    assert stale_pairs(MatrixRequest(root)) == PAIRS
    wanted = frozenset(PAIRS[1:3])
    assert stale_pairs(MatrixRequest(root, wanted)) == PAIRS[1:3]
    run_all(root)
    assert stale_pairs(MatrixRequest(root)) == []
    assert stale_pairs(MatrixRequest(root, forced=frozenset({Stage.BENCHMARK}))) == PAIRS
    (root / "models" / "m2" / "model.yaml").write_text("name: other\n")
    assert stale_pairs(MatrixRequest(root)) == PAIRS[2:]


def test_a_model_is_as_large_as_its_normalised_form(root: Path) -> None:
    assert model_bytes(root, "m1") == len("name: m1\n")
    normalized = root / RESULTS_FOLDER / "normalized" / "m1"
    normalized.mkdir(parents=True)
    (normalized / "model.onnx").write_bytes(bytes(1000))
    assert model_bytes(root, "m1") == 1000
    assert model_bytes(root, "nowhere") == 0
