"""The flow of commits on a real Prefect server; its engine pretends."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows import commit as commit_flow
from flows.commit import call_commit, commit
from flows.git.command import GitError
from flows.project.requests import Pair
from flows.repositories.commit_plan import CommitRequest
from flows.terminal.terminal import Terminal
from stages.errors import Outcome
from tests.flows.commits import DEVICES, Commits
from tests.flows.prefect_runs import artifacts_of, newest_run

pytestmark = pytest.mark.usefixtures("prefect_here")


@pytest.fixture
def commits(tmp_path: Path, surroundings: None, monkeypatch: pytest.MonkeyPatch) -> Commits:
    made = Commits(tmp_path)
    monkeypatch.setattr(commit_flow, "run_matrix", made.run_matrix)
    return made


def test_a_commit_on_the_page(commits: Commits) -> None:
    commits.add("a", "b")
    commits.models.commit()
    commits.refused.add(Pair("b", "npu_b"))
    request = CommitRequest("team", jobs=3)
    result = call_commit(commits.project, request, Terminal(quiet=True))
    assert result.outcome is Outcome.COMPILE_REFUSED
    assert commits.requests[0].jobs == 3
    run = newest_run("commit")
    assert run.name == "team"
    assert run.state.is_failed()
    assert run.state.message == f"{result.headline}; exit code 4"
    assert artifacts_of(run)["commit-report"].data == result.report


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
    assert newest_run("commit").name == f"team {first}.."


def test_a_repository_that_cannot_be_fetched_fails_the_run(commits: Commits) -> None:
    commits.configure(branch="trunk")
    commits.add("a")
    commits.models.commit()
    with pytest.raises(GitError, match="has no branch 'trunk'"):
        call_commit(commits.project, CommitRequest("team"), Terminal(quiet=True))
    run = newest_run("commit")
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
