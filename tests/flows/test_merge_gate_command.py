"""`recipe flow merge-gate`: what it prints, where it tells, and how it exits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import flows.merge_gate
import flows.merging.result
import flows.running.engine
from flows.merging.result import MergeGateResult, MergeRequest
from flows.project.places import Project
from flows.terminal.outcomes import GRAVITY
from flows.terminal.terminal import Terminal
from stages.comparison.merge_facts import PairSides
from stages.comparison.merge_rule import MergeLimits, judge_merge
from stages.report.merge_markdown import merge_markdown
from stages.report.merge_report import MergeReport, headline
from tests.comparison.merge_cases import SOFTSIGN, side, sides
from tests.flows.command import Ended, recipe_inside
from tests.flows.fake_github import FakeGitHub, serving

SLOWER = sides(side(), side(2_913_000, fallbacks=(SOFTSIGN,), package="b2"))
FASTER = sides(side(), side(1_000_000, package="b2"), "net_a")
BAD_INPUT, GATE_FAILED = 2, 6


class Gate:
    """Stands for the flow: what it was asked, and what it says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pairs: tuple[PairSides, ...] = (FASTER,)
        self.notes: tuple[str, ...] = ()
        self.asked: list[tuple[MergeRequest, Path]] = []

    def call(
        self, _project: Project, request: MergeRequest, out: Path, terminal: Terminal
    ) -> MergeGateResult:
        self.asked.append((request, out))
        terminal.say("a line of progress")
        judgement = judge_merge(self.pairs, MergeLimits(5), GRAVITY)
        report = MergeReport(judgement, "main (1a2b3c4)", "5d6e7f8", "", 5, 3, self.notes)
        text = merge_markdown(report)
        return MergeGateResult(report, headline(report), text, out / "merge-gate", Path("res"))


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    made = Gate(tmp_path)
    monkeypatch.setattr(flows.merge_gate, "call_merge_gate", made.call)
    monkeypatch.setattr(flows.merging.result, "judge_idle", lambda *_: None)
    monkeypatch.setattr(
        flows.running.engine, "flow_engine", lambda project: contextlib.nullcontext()
    )
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_EVENT_PATH"):
        monkeypatch.delenv(name, raising=False)
    return made


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGitHub]:
    with serving(FakeGitHub()) as server:
        monkeypatch.setenv("GITHUB_API_URL", server.url)
        monkeypatch.setenv("GITHUB_REPOSITORY", "owner/models")
        monkeypatch.setenv("GITHUB_TOKEN", "secret")
        monkeypatch.setenv("GITHUB_REF", "refs/pull/7/merge")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield server


def merge_gate(*arguments: str) -> Ended:
    return recipe_inside("flow", "merge-gate", "--base", "main", *arguments)


def test_the_verdict_comes_first_and_progress_goes_to_stderr(gate: Gate) -> None:
    gate.pairs, gate.notes = (FASTER, SLOWER), ("base was odd",)
    ended = merge_gate("--out", str(gate.folder))
    assert ended.code == GATE_FAILED
    assert ended.out.splitlines() == [
        "FAIL: net_b on npu_tiny: P99 1.204 ms -> 2.913 ms (+141.9 %, limit +5 %); now on the "
        "host: Softsign_3 (npu_tiny has no softsign)",
        "  note: base was odd",
        "  FAIL  net_b on npu_tiny: P99 1.204 ms -> 2.913 ms (+141.9 %, limit +5 %); now on the "
        "host: Softsign_3 (npu_tiny has no softsign)",
        "  PASS  net_a on npu_tiny: P99 1.204 ms -> 1.000 ms (-16.9 %)",
        "  to let it in: recipe baseline accept net_b --hardware npu_tiny --out res",
        f"  reports: {gate.folder}/merge-gate",
    ]
    assert "a line of progress" in ended.err


def test_options_reach_the_flow(gate: Gate) -> None:
    wanted = ("--head", "work", "--repository", "team", "--jobs", "2", "--quiet")
    ended = merge_gate(*wanted)
    assert ended.code == 0
    assert gate.asked == [(MergeRequest("main", "work", "team", 2), Path("out"))]
    assert "progress" not in ended.err


def test_the_comment_and_the_summary(
    gate: Gate, github: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = gate.folder / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert merge_gate("--comment").code == 0
    assert github.comments[0]["body"] == summary.read_text()
    gate.pairs = (SLOWER,)
    assert merge_gate("--comment").code == GATE_FAILED
    assert len(github.comments) == 1
    assert github.comments[0]["body"].startswith("### FAIL")


def test_a_comment_that_is_refused_hides_no_verdict(gate: Gate, github: FakeGitHub) -> None:
    github.first = [(403, {}, '{"message": "no"}')] * 2
    passed = merge_gate("--comment")
    assert passed.code == BAD_INPUT
    assert passed.out.startswith("PASS: ")
    assert "permissions: {pull-requests: write}" in passed.err
    gate.pairs = (SLOWER,)
    failed = merge_gate("--comment")
    assert failed.code == GATE_FAILED
    assert "GitHub answers 403" in failed.err


def test_a_summary_that_can_not_be_written_keeps_no_comment_back(
    gate: Gate, github: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(gate.folder))
    assert merge_gate("--comment").code == BAD_INPUT
    assert len(github.comments) == 1


def test_without_a_pull_request_nothing_runs(
    gate: Gate, github: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_REF", "refs/heads/main")
    ended = merge_gate("--comment")
    assert ended.code == BAD_INPUT
    assert "`--pull-request`" in ended.err
    assert gate.asked == []
    assert merge_gate("--comment", "--pull-request", "7").code == 0
    assert len(github.comments) == 1
