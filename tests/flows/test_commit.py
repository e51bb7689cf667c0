"""Commits of a model repository, with an engine that only pretends: which pairs run, what is
kept, and what is remembered."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flows.git.command import GitError
from flows.project.requests import Pair
from flows.repositories.commit_plan import CommitRequest
from flows.repositories.commit_run import process_commit
from flows.repositories.processed import MOST_ATTEMPTS, last_processed
from flows.steps.stage_calls import Stage
from flows.terminal.terminal import Terminal
from stages.errors import HardwareSpecError, InputError, Outcome
from tests.flows.commits import DEVICES, Commits
from tests.flows.git_repositories import tiny_model


@pytest.fixture
def commits(tmp_path: Path, surroundings: None) -> Commits:
    return Commits(tmp_path)


def test_at_first_everything_then_only_what_changed(commits: Commits) -> None:
    commits.add("a", "b", "c", "d", "e")
    first = commits.models.commit()
    result = commits.process()
    assert {row.pair for row in result.rows} == {Pair(m, d) for m in "abcde" for d in DEVICES}
    assert result.outcome is Outcome.PASSED
    assert result.headline == f"team at {first[:12]}: 5 of 5 models, 10 pairs, all passed"
    commits.add("c", seed=9)
    second = commits.models.commit()
    result = commits.process()
    assert {row.pair for row in result.rows} == {Pair("c", d) for d in DEVICES}
    assert {row.changed_in for row in result.rows} == {second}
    assert commits.requests[-1].pairs == {Pair("c", d) for d in DEVICES}
    assert commits.requests[-1].tags == ("commit", "team", f"commit {second[:12]}")
    assert commits.params[-1] == {"models": ["c"], "hardware": list(DEVICES)}
    assert commits.placed[-1] == ["c"]


def test_results_and_report_hold_the_commit(commits: Commits) -> None:
    commits.add("a", "b")
    head = commits.models.commit()
    commits.failed[Pair("b", "npu_b")] = Stage.GATE
    result = commits.process()
    assert result.folder == commits.project.root / "history/commits/team" / head
    kept = json.loads((result.folder / "results.json").read_text())
    assert kept["commit"] == head
    assert kept["since"] is None
    assert [row["commit"] for row in kept["rows"]] == [head] * 4
    assert kept["rows"][0]["model"] == "b"
    assert kept["rows"][0]["hardware"] == "npu_b"
    assert kept["rows"][0]["outcome"] == "GATE_FAILED"
    assert kept["rows"][0]["verdicts"]["gate"] == "FAIL"
    assert kept["rows"][1]["p99_ns"] > 0
    assert len(kept["rows"][1]["package"]) == 64
    assert kept["rows"][1]["project"].startswith(commits.own.git("rev-parse", "HEAD"))
    report = (result.folder / "report.md").read_text()
    assert "GATE\\_FAILED, b on npu\\_b: over the limit" in report.splitlines()[0]
    assert report.count("\n| ") == 6
    assert head in report
    assert result.outcome is Outcome.GATE_FAILED
    again = commits.process(since=None, until=head)
    assert again.rows == ()


def test_a_readme_runs_nothing_and_says_so(commits: Commits) -> None:
    commits.add("a")
    first = commits.models.commit()
    commits.process()
    commits.models.write("README.md", "words")
    second = commits.models.commit()
    result = commits.process()
    assert len(commits.requests) == 1
    assert result.outcome is Outcome.PASSED
    assert result.folder is None
    assert result.headline == (
        f"team at {second[:12]}: nothing to do, no model changed since {first[:12]}"
    )
    record = last_processed(commits.project, "team", "main")
    assert record is not None
    assert record.commit == second


def test_renamed_models_take_their_baselines_and_deleted_ones_are_told_of(
    commits: Commits,
) -> None:
    commits.own.write("baselines/npu_a/old.json", "{}")
    commits.own.commit()
    commits.add("old", "gone")
    commits.models.commit()
    commits.process()
    commits.models.git("mv", "nets/old.onnx", "nets/new.onnx")
    commits.models.git("rm", "-q", "nets/gone.onnx")
    commits.models.commit()
    result = commits.process()
    assert {row.pair.model: row.change for row in result.rows} == {"new": "renamed from old"}
    assert "baselines/npu_a/new.json" in commits.baselines[-1]
    assert "deleted: gone" in result.headline
    assert "gone was deleted: its pairs weren't run" in result.report
    assert "old is called new now" in result.report
    commits.models.git("rm", "-q", "nets/new.onnx")
    commits.models.commit()
    result = commits.process()
    assert result.rows == ()
    assert result.folder is not None
    assert result.headline.endswith("; deleted: new")
    assert json.loads((result.folder / "results.json").read_text())["deleted"] == ["new"]


def test_a_failed_model_is_neither_run_again_nor_forgotten(commits: Commits) -> None:
    commits.add("a", "b")
    bad = commits.models.commit()
    pair = Pair("a", "npu_a")
    commits.refused.add(pair)
    assert commits.process().outcome is Outcome.COMPILE_REFUSED
    commits.models.write("README.md", "words")
    commits.models.commit()
    result = commits.process()
    assert result.rows == ()
    assert result.outcome is Outcome.PASSED
    assert result.still_failing[pair].since == bad
    commits.add("b", seed=5)
    commits.models.commit()
    result = commits.process()
    assert {row.pair.model for row in result.rows} == {"b"}
    assert f"a on npu\\_a still fails since `{bad[:12]}` (COMPILE_REFUSED)" in result.report
    commits.refused.clear()
    commits.add("a", seed=7)
    commits.models.commit()
    assert commits.process().still_failing == {}
    record = last_processed(commits.project, "team", "main")
    assert record is not None
    assert record.failing == {}


def test_a_deleted_model_no_longer_fails(commits: Commits) -> None:
    commits.add("a", "b")
    commits.models.commit()
    commits.refused |= {Pair("a", device) for device in DEVICES}
    commits.process()
    commits.models.git("rm", "-q", "nets/a.onnx")
    commits.models.commit()
    assert commits.process().still_failing == {}


def test_what_failed_by_the_machine_is_tried_again_but_not_for_ever(commits: Commits) -> None:
    commits.add("a")
    commits.models.commit()
    pair = Pair("a", "npu_b")
    commits.unreachable.add(pair)
    assert commits.process().outcome is Outcome.DEVICE_ERROR
    for _ in range(MOST_ATTEMPTS - 1):
        result = commits.process()
        assert [(row.pair, row.change) for row in result.rows] == [(pair, "retried")]
    result = commits.process()
    assert result.rows == ()
    assert set(result.still_failing) == {pair}
    assert len(commits.requests) == MOST_ATTEMPTS


def test_a_device_that_came_back(commits: Commits) -> None:
    commits.add("a")
    commits.models.commit()
    commits.unreachable.add(Pair("a", "npu_b"))
    commits.process()
    commits.unreachable.clear()
    result = commits.process()
    assert result.outcome is Outcome.PASSED
    assert result.folder is not None
    rows = json.loads((result.folder / "results.json").read_text())["rows"]
    assert {(row["hardware"], row["outcome"]) for row in rows} == {
        ("npu_a", "PASSED"),
        ("npu_b", "PASSED"),
    }
    assert commits.process().rows == ()


def test_a_model_whose_files_cannot_be_had(
    commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits.add("a", "b")
    commits.models.write("nets/a.onnx", tiny_model(1, "a.data")[0])
    commits.models.commit()
    result = commits.process()
    assert result.outcome is Outcome.BAD_INPUT
    assert {row.pair.model: row.outcome.name for row in result.rows} == {
        "a": "BAD_INPUT",
        "b": "PASSED",
    }
    assert "'nets/a.data' isn't in the commit" in result.headline
    commits.models.write("README.md", "words")
    commits.models.commit()
    result = commits.process()
    assert result.rows == ()
    assert {pair.model for pair in result.still_failing} == {"a"}
    commits.models.write("nets/a.data", tiny_model(1, "a.data")[1])
    commits.models.commit()
    assert commits.ran() == {"a": "changed"}
    assert commits.process().still_failing == {}


def test_a_force_push_falls_back_to_the_merge_base(commits: Commits) -> None:
    commits.add("a", "b", "c")
    base = commits.models.commit()
    commits.add("b", seed=4)
    commits.models.commit()
    commits.process()
    commits.models.git("reset", "-q", "--hard", base)
    commits.add("c", seed=5)
    commits.models.commit()
    result = commits.process()
    assert "force-pushed" in result.plan.remarks[0]
    assert f"merge base {base[:12]}" in result.plan.remarks[0]
    assert {row.pair.model: row.change for row in result.rows} == {
        "b": "not run before",
        "c": "changed",
    }
    commits.models.git("checkout", "-q", "--orphan", "fresh")
    commits.models.commit()
    commits.models.git("branch", "-M", "main")
    result = commits.process()
    assert "they share no history" in result.plan.remarks[0]
    assert {row.pair.model for row in result.rows} == {"a", "b", "c"}


def test_the_last_commit_processed_is_gone(commits: Commits) -> None:
    commits.add("a")
    commits.models.commit()
    commits.process()
    shutil.rmtree(commits.project.cache / "repositories")
    commits.models.git("commit", "-q", "--amend", "-m", "other words")
    commits.models.git("reflog", "expire", "--expire=now", "--all")
    commits.models.git("gc", "-q", "--prune=now")
    result = commits.process()
    assert "is gone" in result.plan.remarks[0]
    assert {row.change for row in result.rows} == {"added"}
    assert commits.process().rows == ()


def test_ranges_that_do_not_follow_are_run_but_not_recorded(commits: Commits) -> None:
    commits.add("a")
    first = commits.models.commit()
    commits.add("b", seed=2)
    second = commits.models.commit()
    commits.add("c", seed=3)
    third = commits.models.commit()
    assert commits.ran(since=first, until=second) == {"b": "added"}
    commits.add("d", seed=4)
    fourth = commits.models.commit()
    assert commits.ran(since=third, until=fourth) == {"d": "added"}
    assert "stays" in commits.process(since=third, until=fourth).plan.remarks[-1]
    assert commits.ran(hardware=("npu_a",)) == {"c": "added", "d": "added"}
    assert commits.ran() == {"c": "added", "d": "added"}
    assert commits.ran(until=first) == {}
    record = last_processed(commits.project, "team", "main")
    assert record is not None
    assert record.commit == fourth


def test_other_globs_bring_models_that_no_commit_touched(commits: Commits) -> None:
    commits.add("a")
    commits.models.write("old/z.onnx", tiny_model(8)[0])
    commits.models.commit()
    commits.configure(models=["nets/*.onnx"])
    assert commits.ran() == {"a": "added"}
    commits.configure(models=["**/*.onnx"], hardware=["npu_b"])
    result = commits.process()
    assert [(row.pair, row.change) for row in result.rows] == [
        (Pair("z", "npu_b"), "not run before")
    ]


def test_rows_of_other_devices_of_the_same_commit_stay(commits: Commits) -> None:
    commits.add("a")
    commits.models.commit()
    commits.process(hardware=("npu_a",))
    result = commits.process(hardware=("npu_b",))
    assert result.folder is not None
    rows = json.loads((result.folder / "results.json").read_text())["rows"]
    assert {row["hardware"] for row in rows} == set(DEVICES)


def test_a_kill_before_the_record_repeats_the_range(
    commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits.add("a")
    commits.models.commit()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("flows.repositories.commit_run.record_processed", killed)
        with pytest.raises(KeyboardInterrupt):
            commits.process()
    assert last_processed(commits.project, "team", "main") is None
    assert commits.ran() == {"a": "added"}


def test_a_history_that_cannot_be_written_records_nothing(commits: Commits) -> None:
    commits.add("a")
    commits.models.commit()
    commits.own.write("history/commits", "in the way")
    with pytest.raises(InputError, match="results can't be written") as caught:
        commits.process()
    assert "run again" in caught.value.hint
    (commits.project.root / "history/commits").unlink()
    assert commits.ran() == {"a": "added"}


def test_a_damaged_record_is_told_of(commits: Commits) -> None:
    commits.add("a")
    commits.models.commit()
    commits.own.write("history/processed.json", "{")
    with pytest.raises(InputError, match="record of processed commits can't be read") as caught:
        commits.process()
    assert "processed.json" in caught.value.where


def test_two_at_once_come_one_after_the_other(commits: Commits) -> None:
    commits.add("a")
    commits.models.commit()
    with ThreadPoolExecutor(2) as threads:
        running = [threads.submit(commits.process) for _ in range(2)]
        rows = sorted(len(each.result().rows) for each in running)
    assert rows == [0, len(DEVICES)]
    assert len(commits.requests) == 1


def test_names_that_are_wrong(commits: Commits) -> None:
    commits.add("a")
    commits.models.commit()
    with pytest.raises(HardwareSpecError):
        commits.process(hardware=("npu_c",))
    with pytest.raises(GitError, match="no commit 'nowhere'"):
        commits.process(until="nowhere")
    with pytest.raises(InputError, match=r"no model repository '\.\./team'"):
        process_commit(
            commits.project, CommitRequest("../team"), Terminal(quiet=True), commits.run_matrix
        )


def test_same_input_same_bytes(commits: Commits) -> None:
    commits.add("a", "b")
    head = commits.models.commit()
    folder = commits.project.root / "history/commits/team" / head

    def kept() -> list[bytes]:
        shutil.rmtree(commits.project.root / "history", ignore_errors=True)
        commits.process()
        return [(folder / name).read_bytes() for name in ("results.json", "report.md")]

    assert kept() == kept()
