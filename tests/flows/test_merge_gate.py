"""The merge gate for real: two Git trees of a small project, a Prefect server, all six stages."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from flows.merge_gate import SUMMARY_KEY, TABLE_KEY, call_merge_gate
from flows.merging.result import MergeGateResult, MergeRequest
from flows.project.places import CACHE_VARIABLE, PairPlaces, Project
from flows.running.engine import drain
from flows.terminal.terminal import Terminal
from stages.comparison.merge_rule import PairVerdict
from stages.errors import Outcome
from stages.gate import accept_baseline
from tests.flows.command import recipe
from tests.flows.git_repositories import Repository
from tests.flows.merge_project import DEVICE, PARAMS, activated, make_merge_project, write_model
from tests.flows.prefect_runs import artifacts_of, newest_run

SLOWER = re.compile(
    r"FAIL: net_b on npu_tiny: P99 [\d.]+ us -> [\d.]+ us \(\+[\d.]+ %, limit \+5 %\); "
    r"now on the host: Atan_3 \(Atan isn't in the operator list of npu_tiny\)"
)


@pytest.fixture(scope="module")
def merged(
    prefect_here: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Repository, Project]]:
    """A project whose branch `slow` puts net_b's activation on the host, drops net_a and adds
    net_c."""
    folder = tmp_path_factory.mktemp("merge")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(CACHE_VARIABLE, str(folder / "cache"))
        repository, project = make_merge_project(folder / "project")
        repository.git("checkout", "-q", "-b", "slow")
        write_model(project.root, "net_b", activated("Atan"))
        write_model(project.root, "net_c", activated("Tanh"))
        shutil.rmtree(project.root / "models" / "net_a")
        repository.write("params.yaml", PARAMS.replace("[net_a, net_b]", "[net_b, net_c]"))
        repository.commit("another activation")
        yield repository, project


def gate(project: Project, head: str | None = None) -> MergeGateResult:
    request = MergeRequest("main", head, jobs=2)
    return call_merge_gate(project, request, project.root / "out", Terminal(quiet=True))


@pytest.fixture(scope="module")
def blocked(merged: tuple[Repository, Project]) -> MergeGateResult:
    """What the gate says to the branch."""
    return gate(merged[1])


def test_a_merge_that_makes_a_model_slower_is_blocked(blocked: MergeGateResult) -> None:
    assert SLOWER.match(blocked.headline)
    assert blocked.outcome is Outcome.GATE_FAILED
    verdicts = {pair.sides.model: pair.verdict for pair in blocked.report.judgement.pairs}
    assert verdicts == {
        "net_b": PairVerdict.FAIL,
        "net_c": PairVerdict.NEW,
        "net_a": PairVerdict.DELETED,
    }


def test_its_reports_say_so(blocked: MergeGateResult, merged: tuple[Repository, Project]) -> None:
    markdown = (blocked.folder / "report.md").read_text()
    assert markdown.splitlines()[0].startswith("### FAIL: net\\_b on npu\\_tiny: P99 ")
    assert markdown.endswith(f"{blocked.marker}\n")
    found = json.loads((blocked.folder / "report.json").read_bytes())
    assert (found["exit_code"], found["headline"]) == (6, blocked.headline)
    assert found["pairs"][0]["deltas"]["fallbacks"]["before"] == 0
    root = ElementTree.parse(blocked.folder / "junit.xml").getroot()
    assert [case.get("name") for case in root.iter("testcase")] == ["net_b", "net_c"]
    assert len(list(root.iter("failure"))) == 1
    for path in blocked.folder.iterdir():  # nothing of this machine
        assert str(merged[1].root.parent) not in path.read_text()


def test_the_flow_run_reads_well_in_prefect(blocked: MergeGateResult) -> None:
    drain()
    run = newest_run("merge gate")
    artifacts = artifacts_of(run)
    assert run.name == "merge gate: main..working tree"
    assert {"merge gate", "base main"} <= set(run.tags)
    assert run.state.is_failed()
    assert run.state.message == f"{blocked.headline}; exit code 6"
    assert artifacts[SUMMARY_KEY].description == blocked.headline
    assert artifacts[SUMMARY_KEY].data == blocked.markdown
    assert "net_b" in artifacts[TABLE_KEY].data


def test_the_same_merge_again_gives_the_same_bytes(
    merged: tuple[Repository, Project], blocked: MergeGateResult
) -> None:
    before = _contents(blocked.folder)
    again = gate(merged[1])
    assert _contents(again.folder) == before


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_accepted_baseline_lets_it_through(
    merged: tuple[Repository, Project], blocked: MergeGateResult
) -> None:
    repository, project = merged
    results = PairPlaces(blocked.results, "net_b", DEVICE)
    baseline = project.baseline(DEVICE, "net_b")
    accept_baseline(results.benchmark, results.validation, baseline)
    try:
        result = gate(project)
    finally:
        repository.git("clean", "-q", "-f", "-d", "baselines")
    assert result.report.judgement.pairs[0].verdict is PairVerdict.ACCEPTED
    assert result.outcome is Outcome.PASSED
    assert "with local changes" in result.report.head


def test_the_command_says_the_verdict_first_and_exits_with_it(
    merged: tuple[Repository, Project],
    blocked: MergeGateResult,
    prefect_here: str,
    tmp_path: Path,
) -> None:
    _, project = merged
    summary = tmp_path / "summary.md"
    variables = {
        "GITHUB_STEP_SUMMARY": str(summary),
        "PREFECT_API_URL": prefect_here,
    }
    wanted = ("flow", "merge-gate", "--base", "main", "--out", str(tmp_path))
    ended = recipe(*wanted, cwd=project.root, **variables)
    assert ended.code == 6, ended.err
    assert ended.out.splitlines()[0] == blocked.headline
    accept = f"recipe baseline accept net_b --hardware npu_tiny --out {blocked.results}"
    assert f"  to let it in: {accept}\n" in ended.out
    assert summary.read_text() == (tmp_path / "merge-gate" / "report.md").read_text()
    assert summary.read_text() == blocked.markdown


def test_a_comment_without_a_token_is_refused_before_anything_runs(
    merged: tuple[Repository, Project], tmp_path: Path
) -> None:
    wanted = ("flow", "merge-gate", "--base", "main", "--comment")
    variables = {"GITHUB_REPOSITORY": "o/n", "GITHUB_REF": "refs/pull/1/merge", "GITHUB_TOKEN": ""}
    ended = recipe(*wanted, cwd=merged[1].root, **variables)
    assert ended.code == Outcome.BAD_INPUT
    assert "GITHUB_TOKEN isn't set" in ended.err
