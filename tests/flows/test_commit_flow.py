"""`recipe flow commit` on a real Prefect server: its engine pretends, but for one test."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows import commit as commit_flow
from flows.commit import call_commit, commit
from flows.git.command import GitError
from flows.project.places import CACHE_VARIABLE, Project
from flows.project.requests import Pair
from flows.repositories.commit_plan import CommitRequest
from flows.running.flow_server import FlowServer
from flows.terminal.terminal import Terminal
from stages.errors import Outcome
from tests.flows.command import REPOSITORY, recipe
from tests.flows.commits import DEVICES, Commits
from tests.flows.git_repositories import ENVIRONMENT, Repository
from tests.flows.small_models import convolution, save


@pytest.fixture(scope="module", autouse=True)
def server(flow_server: None) -> Iterator[None]:
    """The shared server, which Prefect in this process talks to."""
    server = FlowServer(Project(REPOSITORY).cache / "prefect")
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("PREFECT_API_URL", raising=False)
        server.open()
        server.wait_until_ready()
        with temporary_settings({PREFECT_API_URL: os.environ["PREFECT_API_URL"]}):
            yield
        server.close()


@pytest.fixture
def commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commits:
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    for key, value in ENVIRONMENT.items():
        monkeypatch.setenv(key, value)
    made = Commits(tmp_path)
    monkeypatch.setattr(commit_flow, "run_matrix", made.run_matrix)
    return made


def latest_run() -> tuple[Any, dict[str | None, Any]]:
    """The newest run of the flow, and its artifacts by key."""
    from prefect.client.schemas.filters import (
        ArtifactFilter,
        ArtifactFilterFlowRunId,
        FlowFilter,
        FlowFilterName,
    )
    from prefect.client.schemas.sorting import FlowRunSort

    with get_client(sync_client=True) as client:
        named = FlowFilter(name=FlowFilterName(any_=["commit"]))
        newest = FlowRunSort.START_TIME_DESC
        (run,) = client.read_flow_runs(flow_filter=named, sort=newest, limit=1)
        wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
        found = client.read_artifacts(artifact_filter=wanted)
        return run, {artifact.key: artifact for artifact in found}


def test_a_commit_on_the_page(commits: Commits) -> None:
    commits.add("a", "b")
    commits.models.commit()
    commits.refused.add(Pair("b", "npu_b"))
    request = CommitRequest("team", jobs=3)
    result = call_commit(commits.project, request, Terminal(quiet=True))
    assert result.outcome is Outcome.COMPILE_REFUSED
    assert commits.requests[0].jobs == 3
    run, artifacts = latest_run()
    assert run.name == "team"
    assert run.state.is_failed()
    assert run.state.message == f"{result.headline}; exit code 4"
    assert artifacts["commit-report"].data == result.report


def test_a_deployment_calls_it_with_json(commits: Commits) -> None:
    commits.add("a")
    first = commits.models.commit()
    commits.add("b", seed=3)
    commits.models.commit()
    state = commit(
        project=str(commits.project.root),
        repository="team",
        since=first,
        hardware=["npu_b"],
        return_state=True,
    )
    assert state.is_completed()
    assert state.message is not None
    assert "1 of 2 models, 1 pair, all passed" in state.message
    assert commits.requests[0].pairs == {Pair("b", "npu_b")}
    assert latest_run()[0].name == f"team {first}.."


def test_a_repository_that_cannot_be_fetched_fails_the_run(commits: Commits) -> None:
    commits.configure(branch="trunk")
    commits.add("a")
    commits.models.commit()
    with pytest.raises(GitError, match="has no branch 'trunk'"):
        call_commit(commits.project, CommitRequest("team"), Terminal(quiet=True))
    run, _ = latest_run()
    assert run.state.is_failed()
    assert "has no branch 'trunk'" in run.state.message


def test_a_server_that_goes_away_takes_no_result_with_it(
    commits: Commits, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def die(*_given: object, **_named: object) -> None:
        raise ConnectionError("the server went away")

    monkeypatch.setattr(commit_flow, "create_markdown_artifact", die)
    commits.add("a")
    commits.models.commit()
    result = call_commit(commits.project, CommitRequest("team"), Terminal(quiet=True))
    assert result.recorded
    assert len(result.rows) == len(DEVICES)
    assert "isn't on the flow's page: the server went away" in capsys.readouterr().err


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Project, Repository]:
    """This project, with short runs, and a repository of two models."""
    for key, value in ENVIRONMENT.items():
        monkeypatch.setenv(key, value)
    own = Repository.make(tmp_path / "project")
    for name in ("dvc.yaml", ".dvc/config", ".dvc/.gitignore", ".dvcignore", ".gitignore"):
        own.write(name, (REPOSITORY / name).read_bytes())
    for name in ("hardware_specs", "models", "stages", "flows"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / name, own.folder / name, ignore=ignored)
    params = yaml.safe_load((REPOSITORY / "params.yaml").read_text())
    params["benchmark"]["runs"] = params["thermal_stress"]["runs"] = 20
    own.write("params.yaml", yaml.safe_dump(params))
    url = {"team": {"url": "../team models", "hardware": ["npu_tiny"]}}
    own.write("models/repositories.yaml", yaml.safe_dump(url))
    own.commit()
    models = Repository.make(tmp_path / "team models")
    save(convolution(), models.folder / "one.onnx")
    save(convolution(channels=4), models.folder / "the other.onnx")
    models.commit()
    return Project(own.folder), models


def test_for_real(real: tuple[Project, Repository], tmp_path: Path) -> None:
    project, models = real

    def flow_commit() -> tuple[int, str]:
        cache = {CACHE_VARIABLE: str(tmp_path / "cache"), "RECIPE_ROOT": str(project.root)}
        ended = recipe("flow", "commit", "team", cwd=project.root, **cache)
        assert ended.err == "", ended.err
        return ended.code, ended.out

    code, out = flow_commit()
    assert (code, "2 of 2 models, 2 pairs, all passed" in out) == (0, True), out
    save(convolution(channels=6), models.folder / "one.onnx")
    second = models.commit()
    code, out = flow_commit()
    assert (code, "1 of 2 models, 1 pair, all passed" in out) == (0, True), out
    assert "the_other" not in out
    kept = project.root / "history/commits/team" / second / "results.json"
    (row,) = json.loads(kept.read_text())["rows"]
    assert (row["model"], row["commit"], row["outcome"]) == ("one", second, "PASSED")
    assert row["p50_ns"] > 0
    assert len(row["package"]) == 64
    models.write("README.md", "words")
    models.commit()
    code, out = flow_commit()
    assert code == 0
    assert "nothing to do, no model changed" in out
