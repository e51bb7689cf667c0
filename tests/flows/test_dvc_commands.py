"""DVC on the matrix, as a user types its commands: two small models on two devices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.project.places import PairPlaces
from flows.steps.stage_calls import Stage
from stages.errors import Outcome
from stages.report.facts import FOLDERS
from tests.flows.command import recipe
from tests.flows.dvc_project import HARDWARE, DvcProject, contents, make_dvc_project
from tests.flows.git_repositories import Repository

MODELS = ("one", "two")
STEPS = len(MODELS) * (1 + 5 * len(HARDWARE))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[DvcProject, Repository]:
    """A project after `dvc repro`, its dvc.lock committed. For time the engine ran the second model
    before: its commands need no Python of their own."""
    root = tmp_path_factory.mktemp("matrix") / "project"
    project, repository = make_dvc_project(root, *MODELS)
    second = [f"{stage}@{MODELS[1]}-{name}" for stage in Stage for name in HARDWARE
              if stage is not Stage.NORMALIZE]  # fmt: skip
    assert set(project.bring_up_to_date(*second)) == {f"normalize@{MODELS[1]}", *second}
    said = project.dvc("repro")
    ran = {line.split("'")[1] for line in said.splitlines() if line.startswith("Running stage '")}
    assert ran == {f"normalize@{MODELS[0]}"} | {
        name.replace(MODELS[1], MODELS[0]) for name in second
    }
    repository.commit("results")
    return project, repository


@pytest.fixture
def project(made: tuple[DvcProject, Repository]) -> Iterator[DvcProject]:
    """The project, its results as committed, before and after the test."""
    project, repository = made
    yield project
    if repository.git("status", "--porcelain"):
        repository.git("checkout", "-q", "--", ".")
        repository.git("clean", "-qfd")
        project.dvc("checkout", "--quiet")


def metrics(project: DvcProject, stage: str = "benchmark") -> Path:
    """Of the first pair."""
    return project.root / "results" / HARDWARE[0] / MODELS[0] / stage / "metrics.json"


def test_after_repro_the_status_is_clean_and_git_sees_no_result(project: DvcProject) -> None:
    assert project.json("status") == {}
    assert (project.root / "dvc.lock").read_text().count("cmd: recipe") == STEPS


def test_results_are_byte_for_byte_those_of_a_run(
    project: DvcProject, flow_server: str, tmp_path: Path
) -> None:
    there = [part for name in HARDWARE for part in ("--hardware", name)]
    out = tmp_path / "out"
    ended = recipe("run", MODELS[0], *there, "--quiet", "--out", out, cwd=project.root)
    assert (ended.code, ended.err) == (Outcome.PASSED, "")
    for name in HARDWARE:
        places = PairPlaces(out, MODELS[0], name)
        places.report.unlink()
        ran = contents(places.folder)
        assert contents(project.root / "results" / name / MODELS[0]) == ran
        assert {path.split("/")[0] for path in ran} == set(FOLDERS.values())
    normalized = PairPlaces(project.root / "results", MODELS[0], "").normalized
    assert contents(normalized) == contents(out / "normalized" / MODELS[0])


def test_the_graph_has_all_steps_and_what_they_need(project: DvcProject) -> None:
    dot = project.dvc("dag", "--dot")
    lines = dot.splitlines()
    assert len({line for line in lines if line.endswith('";') and "->" not in line}) == STEPS
    edges = {tuple(line.strip(" ;").replace('"', "").split(" -> ")) for line in lines
             if "->" in line}  # fmt: skip
    into_gate = {start for start, end in edges if end == "gate@one-npu_tiny"}
    assert into_gate == {"benchmark@one-npu_tiny", "validate@one-npu_tiny"}
    assert {end for start, end in edges if start == "normalize@two"} == {
        f"{stage}@two-{name}" for stage in ("compile", "validate") for name in HARDWARE
    }


def test_metrics_are_a_few_flat_figures(project: DvcProject) -> None:
    table = project.dvc("metrics", "show", "--md")
    rows = [line for line in table.splitlines() if "metrics.json" in line]
    assert len(rows) == 4 * len(MODELS) * len(HARDWARE)
    assert max(map(len, table.splitlines())) < 400
    shown = project.dvc("metrics", "show", metrics(project).relative_to(project.root))
    assert shown.split()[:6] == ["Path", "over_roofline", "p50_ns", "p99_ns", "p99_over_p50",
                                 "results/npu_tiny/one/benchmark/metrics.json"]  # fmt: skip


def test_plots_show_every_session(project: DvcProject, tmp_path: Path) -> None:
    project.dvc("plots", "show", "--out", tmp_path / "plots")
    page = (tmp_path / "plots" / "index.html").read_text()
    for model in MODELS:
        for name in HARDWARE:
            assert f"Latency of {model} on {name}" in page
            assert f"Latency on a hot die of {model} on {name}" in page


def test_accepting_a_baseline_makes_only_that_devices_gates_stale(project: DvcProject) -> None:
    ended = recipe("baseline", "accept", "one", "--hardware", HARDWARE[0], "--out", "results",
                   cwd=project.root)  # fmt: skip
    assert (ended.code, ended.err) == (Outcome.PASSED, "")
    stale = project.json("status")
    assert set(stale) == {f"gate@{model}-{HARDWARE[0]}" for model in MODELS}


def test_an_experiment_with_another_seed_measures_again_and_diffs(project: DvcProject) -> None:
    before = json.loads(metrics(project).read_text())
    project.dvc("exp", "run", "--quiet", "--name", "seed1", "-S", "benchmark.seed=1",
                "gate@one-npu_tiny")  # fmt: skip
    after = json.loads(metrics(project).read_text())
    assert after["p99_ns"] != before["p99_ns"]
    changed = project.json("metrics", "diff")
    path = metrics(project).relative_to(project.root).as_posix()
    assert changed[path]["p99_ns"] == {
        "old": before["p99_ns"],
        "new": after["p99_ns"],
        "diff": after["p99_ns"] - before["p99_ns"],
    }
    validation = metrics(project, "validation").relative_to(project.root).as_posix()
    assert validation not in changed
    assert "seed1" in project.dvc("exp", "list", "--names-only")


def test_a_fresh_clone_gets_every_result_from_the_remote(
    made: tuple[DvcProject, Repository], project: DvcProject, tmp_path: Path
) -> None:
    _, repository = made
    project.dvc("remote", "add", "--default", "store", tmp_path / "store")
    repository.commit("a remote")
    project.dvc("push", "--quiet")
    repository.git("clone", "-q", str(project.root), str(tmp_path / "clone"))
    clone = DvcProject(tmp_path / "clone")
    clone.dvc("pull", "--quiet")
    assert contents(clone.root / "results") == contents(project.root / "results")
    assert clone.json("status") == {}
    package = PairPlaces(Path("results"), MODELS[0], HARDWARE[0]).package
    assert recipe("show", package, cwd=clone.root).out.startswith("recipe ")
