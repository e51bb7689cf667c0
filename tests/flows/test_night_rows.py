"""Rows of the history from what came of a matrix."""

from __future__ import annotations

import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from flows.nights.rows import begin_night, night_rows, pairs_that_ran, project_commit
from flows.project.places import Project
from flows.project.requests import Pair
from flows.steps.matrix_request import Standing
from flows.steps.stage_calls import Stage
from stages.errors import Outcome
from tests.flows.fake_matrix import FakeMatrix, manifest_of

NIGHT = begin_night(
    datetime(2026, 1, 2, 1, 30, tzinfo=timezone(timedelta(hours=2))), None, "c" * 40
)
ONE, OTHER = Pair("m", "hw1"), Pair("m", "hw2")


def test_the_date_is_where_the_clock_hangs_and_is_the_seed() -> None:
    assert (NIGHT.date, NIGHT.started, NIGHT.seed) == (
        "2026-01-02",
        "2026-01-01T23:30:00Z",
        20260102,
    )
    assert begin_night(datetime.now().astimezone(), 7, "").seed == 7


def test_a_sound_pair_has_all_its_figures(tmp_path: Path) -> None:
    (row,) = night_rows(FakeMatrix(tmp_path, ONE).run(), NIGHT)
    manifest = manifest_of(ONE)
    assert (row.package, row.hardware_digest) == (
        manifest.package_sha256,
        manifest.hardware_sha256,
    )
    assert (row.runs, row.p50_ns, row.p99_ns) == (1000, 1_100_000, 1_210_000)
    assert (row.hot_p50_ns, row.hot_p99_ns) == (1_100_000, 1_210_000)
    assert (row.peak_sram_bytes, row.peak_ddr_bytes, row.fallbacks) == (200 * 1024, None, 2)
    assert row.verdicts == ("PASS", "PASS", "PASS", "PASS", "NEW", "PASS")
    assert (row.outcome, row.reason, row.sqnr_db) == (Outcome.PASSED, "", None)


def test_a_refused_pair_says_which_stage_and_why_beside_a_sound_one(tmp_path: Path) -> None:
    matrix = FakeMatrix(tmp_path, ONE, OTHER)
    matrix.refused = {ONE}
    refused, sound = night_rows(matrix.run(), NIGHT)
    skipped = ("SKIPPED",) * 4
    assert refused.verdicts == ("PASS", "COMPILE_REFUSED", *skipped)
    assert (refused.outcome, refused.failed_stage) == (Outcome.COMPILE_REFUSED, "compile")
    assert refused.reason == "tensor %a can't fit"
    assert (refused.p99_ns, refused.package) == (None, "")
    assert sound.outcome is Outcome.PASSED


@pytest.mark.parametrize("stage", [Stage.VALIDATE, Stage.GATE, Stage.THERMAL_STRESS])
def test_a_failed_verdict_keeps_the_figures(tmp_path: Path, stage: Stage) -> None:
    matrix = FakeMatrix(tmp_path, ONE)
    matrix.failed = {ONE: stage}
    (row,) = night_rows(matrix.run(), NIGHT)
    assert (row.failed_stage, row.reason) == (stage.value, "over the limit")
    assert row.p99_ns == 1_210_000


def test_a_damaged_report_breaks_its_own_pair_alone(tmp_path: Path) -> None:
    result = FakeMatrix(tmp_path, ONE, OTHER).run()
    (result.places(ONE).gate / "gate.json").write_text("{")
    damaged, sound = night_rows(result, NIGHT)
    assert damaged.outcome is Outcome.BAD_INPUT
    assert "gate.json" in damaged.reason
    assert (damaged.p99_ns, sound.outcome) == (None, Outcome.PASSED)


def test_only_pairs_with_a_step_that_ran_count_as_run(tmp_path: Path) -> None:
    matrix = FakeMatrix(tmp_path, ONE, OTHER)
    matrix.standing = Standing.FRESH
    assert pairs_that_ran(matrix.run()) == frozenset()
    matrix.refused = {OTHER}
    assert pairs_that_ran(matrix.run()) == {OTHER}


def test_the_projects_commit_says_whether_files_differ(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        command = ["git", *identity, *arguments]
        return subprocess.check_output(command, cwd=tmp_path, text=True).strip()

    project = Project(tmp_path)
    assert project_commit(project) == ""
    git("init", "-q")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-qm", "one")
    assert project_commit(project) == git("rev-parse", "HEAD")
    (tmp_path / "b").write_text("2")
    assert project_commit(project) == git("rev-parse", "HEAD") + "+changes"
