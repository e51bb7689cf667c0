"""The merge gate over two Git trees of a small project: everything runs, but on two tiny models."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from flows.engine import flow_engine
from flows.merge_gate import MergeGateResult, MergeRequest, call_merge_gate
from flows.places import CACHE_VARIABLE, PairPlaces, Project
from flows.terminal import Terminal
from flows.workspace import workspace_folder
from stages.errors import Outcome
from stages.evaluation.merge_rule import PairVerdict
from stages.gate import accept_baseline
from tests.flows.command import REPOSITORY
from tests.flows.git_repositories import Repository
from tests.flows.merge_project import DEVICE, PARAMS, activated, make_merge_project, write_model

QUIET = Terminal(quiet=True)
SLOWER = (
    r"FAIL: net_b on npu_tiny: P99 [\d.]+ us -> [\d.]+ us \(\+[\d.]+ %, limit \+5 %\); "
    r"now on the host: Atan_3 \(Atan isn't in the operator list of npu_tiny\)"
)


@pytest.fixture(scope="module")
def merged(
    flow_server: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Repository, Project]]:
    """A project within a running engine; its branch `slow` puts net_b's activation on the host,
    drops net_a and adds net_c."""
    folder = tmp_path_factory.mktemp("merge")
    with flow_engine(Project(REPOSITORY)), pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(folder / "cache"))
        repository, project = make_merge_project(folder / "project")
        repository.git("checkout", "-q", "-b", "slow")
        write_model(project.root, "net_b", activated("Atan"))
        write_model(project.root, "net_c", activated("Tanh"))
        shutil.rmtree(project.root / "models" / "net_a")
        repository.write("params.yaml", PARAMS.replace("[net_a, net_b]", "[net_b, net_c]"))
        repository.commit("another activation")
        yield repository, project


def gate(project: Project, base: str = "main", head: str | None = None) -> MergeGateResult:
    return call_merge_gate(project, MergeRequest(base, head), project.root / "out", QUIET)


def verdicts(result: MergeGateResult) -> dict[str, PairVerdict]:
    return {pair.sides.model: pair.verdict for pair in result.report.judgement.pairs}


@pytest.fixture(scope="module")
def blocked(merged: tuple[Repository, Project]) -> MergeGateResult:
    """What the gate says to the branch."""
    repository, project = merged
    repository.git("checkout", "-q", "slow")
    return gate(project)


def test_a_merge_that_makes_a_model_slower_is_blocked(blocked: MergeGateResult) -> None:
    import re

    assert re.match(SLOWER, blocked.headline)
    assert blocked.outcome is Outcome.GATE_FAILED
    assert verdicts(blocked) == {
        "net_b": PairVerdict.FAIL,
        "net_c": PairVerdict.NEW,
        "net_a": PairVerdict.DELETED,
    }


def test_its_reports_say_so(blocked: MergeGateResult) -> None:
    markdown = (blocked.folder / "report.md").read_text()
    assert markdown.splitlines()[0].startswith("### FAIL: net\\_b on npu\\_tiny: P99 ")
    assert markdown.endswith(f"{blocked.marker}\n")
    found = json.loads((blocked.folder / "report.json").read_bytes())
    assert (found["exit_code"], found["headline"]) == (6, blocked.headline)
    assert found["pairs"][0]["deltas"]["fallbacks"]["before"] == 0
    root = ElementTree.parse(blocked.folder / "junit.xml").getroot()
    assert [case.get("name") for case in root.iter("testcase")] == ["net_b", "net_c"]
    assert len(list(root.iter("failure"))) == 1


def test_no_report_names_this_machine(
    blocked: MergeGateResult, merged: tuple[Repository, Project]
) -> None:
    for path in blocked.folder.iterdir():
        assert str(merged[1].root.parent) not in path.read_text()


def test_the_same_merge_again_gives_the_same_bytes(
    merged: tuple[Repository, Project], blocked: MergeGateResult
) -> None:
    before = {path.name: path.read_bytes() for path in blocked.folder.iterdir()}
    again = gate(merged[1], "main", "slow")
    after = {path.name: path.read_bytes() for path in again.folder.iterdir()}
    here, there = (content.pop("report.md").decode() for content in (before, after))
    assert here.replace(blocked.report.head, "") == there.replace(again.report.head, "")
    assert before["junit.xml"] == after["junit.xml"]


def test_an_accepted_baseline_lets_it_through(
    merged: tuple[Repository, Project], blocked: MergeGateResult
) -> None:
    repository, project = merged
    repository.git("checkout", "-q", "-b", "accepted", "slow")
    results = PairPlaces(workspace_folder(project, "head") / "results", "net_b", DEVICE)
    accept_baseline(results.benchmark, results.validation, project.baseline(DEVICE, "net_b"))
    result = gate(project)
    repository.commit("slower on purpose")
    assert verdicts(result)["net_b"] is PairVerdict.ACCEPTED
    assert result.outcome is Outcome.PASSED
    assert "with local changes" in result.report.head


def test_a_raised_limit_holds_and_is_said(
    merged: tuple[Repository, Project], blocked: MergeGateResult
) -> None:
    repository, project = merged
    repository.git("checkout", "-q", "-b", "raised", "slow")
    params = (project.root / "params.yaml").read_text()
    (project.root / "params.yaml").write_text(params.replace("percent: 5", "percent: 500"))
    repository.commit("raise the limit")
    result = gate(project)
    assert verdicts(result)["net_b"] is PairVerdict.PASS
    assert result.report.notes == (
        "gate.max_p99_increase_percent is 5 in base and 500 in head; head's holds",
    )


def test_a_commit_that_touches_no_model_runs_nothing(merged: tuple[Repository, Project]) -> None:
    repository, project = merged
    repository.git("checkout", "-q", "-b", "words", "main")
    repository.write("README.md", "done\n")
    repository.commit("words")
    result = gate(project)
    assert result.headline == "PASS: no pair is affected (2 untouched)"
    assert result.report.judgement.pairs == ()


def test_both_sides_are_measured_in_the_same_weather(merged: tuple[Repository, Project]) -> None:
    repository, project = merged
    repository.git("checkout", "-q", "-b", "weather", "main")
    params = (project.root / "params.yaml").read_text()
    (project.root / "params.yaml").write_text(
        params.replace("warmup: 5, seed: 0", "warmup: 5, seed: 9")
    )
    repository.commit("another seed")
    result = gate(project)
    assert result.headline == "PASS: no pair is affected (2 untouched)"
    assert result.report.notes == (
        "benchmark.seed is 0 in base and 9 in head; both were measured with head's",
    )


def test_a_base_from_before_the_graph_is_no_base(
    merged: tuple[Repository, Project], blocked: MergeGateResult
) -> None:
    result = gate(merged[1], "before", "slow")
    assert set(verdicts(result).values()) == {PairVerdict.NEW}
    assert "has no dvc.yaml" in result.report.notes[0]
    assert result.outcome is Outcome.PASSED


def test_a_base_whose_graph_can_not_be_read_is_no_base(
    merged: tuple[Repository, Project], blocked: MergeGateResult
) -> None:
    repository, project = merged
    repository.git("checkout", "-q", "-b", "broken", "before")
    repository.write("dvc.yaml", "stages: [unreadable\n")
    repository.write(".dvc/config", "")
    repository.write("params.yaml", "also: [unreadable\n")
    repository.commit("broken")
    repository.git("merge", "-q", "-s", "ours", "--no-edit", "slow")
    repository.git("read-tree", "-u", "--reset", "slow")
    repository.commit("mended")
    result = gate(project, "broken~2")
    assert set(verdicts(result).values()) == {PairVerdict.NEW}
    assert result.report.notes[0].startswith("base can't be read, so every pair counts as new: ")
