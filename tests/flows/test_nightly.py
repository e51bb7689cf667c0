"""A night as a flow on a real server: rows, summary, artifacts, and what one broken pair leaves."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows import nightly as nightly_flow
from flows.nightly import call_nightly
from flows.nights.conclusion import NightResult
from flows.nights.history import append_nights, history_file, read_history
from flows.nights.night_request import NightRequest
from flows.project.places import Project
from flows.project.requests import Pair
from flows.steps.matrix_request import MatrixRequest, MatrixResult, Standing
from flows.steps.stage_calls import Stage
from flows.terminal.terminal import Terminal
from flows.workers.shard_parameters import Crew
from stages.errors import InputError, Outcome
from tests.flows.fake_matrix import FakeMatrix
from tests.flows.prefect_runs import artifacts_of, newest_run

pytestmark = pytest.mark.usefixtures("prefect_here")
ONE, OTHER = Pair("m", "hw1"), Pair("m", "hw2")
IGNORED = "/history/\n/.cache/\n/results/\n"


class Nights:
    """A project in Git whose matrix is fake; notes every request."""

    def __init__(self, root: Path) -> None:
        self.project = Project(root)
        self.matrix = FakeMatrix(root, ONE, OTHER)
        self.requests: list[MatrixRequest] = []
        self.params: list[Any] = []

    def run_matrix(self, request: MatrixRequest, _terminal: Terminal) -> MatrixResult:
        """Stands for the engine."""
        self.requests.append(request)
        self.params.append(yaml.safe_load((request.root / "params.yaml").read_text()))
        self.matrix.root = request.root
        return self.matrix.run()

    def night(self, seed: int | None = None, only_stale: bool = False) -> NightResult:
        """Runs one."""
        request = NightRequest(seed, only_stale, jobs=2)
        return call_nightly(self.project, request, Terminal(quiet=True))


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    """A project with one commit."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "params.yaml").write_text("benchmark: {seed: 5, runs: 10}\n")
    (root / ".gitignore").write_text(IGNORED)
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    for arguments in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "one")):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    monkeypatch.setenv("RECIPE_CACHE", str(tmp_path / "cache"))
    nights = Nights(root)
    monkeypatch.setattr(nightly_flow, "run_matrix", nights.run_matrix)
    return nights


def test_a_night_runs_beside_the_checkout_with_its_seed_and_measures_anew(nights: Nights) -> None:
    result = nights.night(seed=77)
    (request,) = nights.requests
    assert request.root != nights.project.root
    assert request.forced == {Stage.BENCHMARK, Stage.THERMAL_STRESS}
    assert request.pairs is None
    assert request.jobs == 2
    (params,) = nights.params
    assert params["benchmark"] == {"seed": 77, "runs": 10}
    assert params["thermal_stress"] == {"seed": 77}
    assert (nights.project.root / "params.yaml").read_text().startswith("benchmark: {seed: 5")
    assert result.outcome is Outcome.PASSED
    rows = read_history(history_file(nights.project.root)).rows
    assert [row.pair for row in rows] == [("m", "hw1"), ("m", "hw2")]
    assert {row.seed for row in rows} == {77}
    assert len(rows[0].commit) == 40


def test_the_date_is_the_seed(nights: Nights) -> None:
    result = nights.night()
    assert nights.params[0]["benchmark"]["seed"] == int(result.night.date.replace("-", ""))


def test_what_moved_is_on_the_page_and_in_a_file(nights: Nights) -> None:
    for _ in range(3):
        nights.night(seed=1)
    nights.matrix.refused = {OTHER}
    nights.matrix.p99_ns = {ONE: 1_400_000}
    result = nights.night(seed=2)
    assert result.headline == "2 pairs: 1 newly broken, 1 worse"
    assert result.outcome is Outcome.COMPILE_REFUSED
    run = newest_run("nightly")
    artifacts = artifacts_of(run)
    assert run.name.endswith(", seed 2")
    assert run.state.is_failed()
    assert run.state.message == "2 pairs: 1 newly broken, 1 worse; exit code 4"
    summary = artifacts["nightly-summary"].data
    assert summary == result.summary
    assert "- **m on hw2**, compile: compile refused: tensor %a can't fit\n" in summary
    assert "| m | hw1 | P99 | +15.7 % | 1.4 ms | 1.21 ms | 1.21 ms | same recipe |" in summary
    assert summary.index("Broken") < summary.index("Worse")
    assert "nightly-pairs" in artifacts
    assert result.file is not None
    assert result.file.read_text() == summary
    assert (result.file.parent / "latest.md").read_text() == summary
    assert len(read_history(history_file(nights.project.root)).rows) == 8


def test_only_stale_with_nothing_stale_appends_nothing(nights: Nights) -> None:
    nights.matrix.standing = Standing.FRESH
    result = nights.night(only_stale=True)
    (request,) = nights.requests
    assert (request.root, request.forced) == (nights.project.root, frozenset())
    assert nights.params[0]["benchmark"]["seed"] == 5
    assert (result.headline, result.outcome) == ("2 pairs: nothing was stale", Outcome.PASSED)
    assert not history_file(nights.project.root).exists()
    (summary,) = (nights.project.root / "history" / "nights").iterdir()
    assert summary.name == "latest.md"
    assert "nothing was stale" in summary.read_text()
    nights.matrix.failed = {ONE: Stage.GATE}
    again = nights.night(only_stale=True)
    assert again.outcome is Outcome.GATE_FAILED
    assert "nothing was stale, and still: gate failed" in again.headline


def test_only_stale_appends_the_pairs_that_ran(nights: Nights) -> None:
    nights.matrix.standing = Standing.FRESH
    nights.matrix.refused = {OTHER}
    result = nights.night(only_stale=True)
    (row,) = read_history(history_file(nights.project.root)).rows
    assert row.pair == ("m", "hw2")
    assert row.seed == 5
    assert result.headline == "2 pairs: 1 newly broken, 1 new"


def test_a_damaged_history_keeps_nothing_back(nights: Nights) -> None:
    path = history_file(nights.project.root)
    append_nights(path, [])
    path.write_text(path.read_text() + "what is this\n")
    before = path.read_bytes()
    result = nights.night(seed=3)
    assert result.outcome is Outcome.BAD_INPUT
    assert result.appended == 0
    assert "the history is damaged" in result.summary
    assert path.read_bytes() == before
    assert newest_run("nightly").state.is_failed()


def test_a_cut_off_line_is_mended_and_told(nights: Nights) -> None:
    nights.night(seed=3)
    path = history_file(nights.project.root)
    path.write_text(path.read_text()[:-20])
    result = nights.night(seed=4)
    assert result.outcome is Outcome.PASSED
    assert "cut off" in result.summary
    assert len(read_history(path).rows) == 3


def test_a_matrix_that_cant_run_ends_the_night_with_its_error(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_request: MatrixRequest, _terminal: Terminal) -> MatrixResult:
        raise InputError("no dvc.yaml", where="here")

    monkeypatch.setattr(nightly_flow, "run_matrix", refuse)
    with pytest.raises(InputError, match=r"no dvc\.yaml"):
        nights.night()
    run = newest_run("nightly")
    assert run.state.is_failed()
    assert "no dvc.yaml" in run.state.message
    assert not history_file(nights.project.root).exists()


def _die(*_given: object, **_named: object) -> None:
    raise ConnectionError("the server went away")


@pytest.mark.parametrize("gone", ["create_markdown_artifact", "create_table_artifact"])
def test_a_server_that_goes_away_takes_no_result_with_it(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, gone: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nightly_flow, gone, _die)
    assert nights.night(seed=3).appended == 2
    assert "isn't on the flow's page: the server went away" in capsys.readouterr().err


def test_a_crew_runs_the_stages_elsewhere(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Crew, Project, dict[str, object]]] = []

    def run_on_pool(
        crew: Crew,
        project: Project,
        request: MatrixRequest,
        params: dict[str, object],
        terminal: Terminal,
    ) -> MatrixResult:
        asked.append((crew, project, params))
        return nights.run_matrix(request, terminal)

    monkeypatch.setattr(nightly_flow, "run_on_pool", run_on_pool)
    crew = Crew(8, "machines")
    request = NightRequest(77, jobs=2, shards=crew.shards, work_pool=crew.work_pool)
    result = call_nightly(nights.project, request, Terminal(quiet=True))
    seeds = {"benchmark.seed": 77, "thermal_stress.seed": 77}
    assert asked == [(crew, nights.project, seeds)]
    assert result.outcome is Outcome.PASSED
