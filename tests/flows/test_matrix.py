"""The matrix as a Prefect flow: order, failures side by side, verdicts, what becomes a task."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterTags,
)

from flows.matrix import run_matrix
from flows.project.requests import Pair
from flows.steps.board import Step, needs_of
from flows.steps.matrix_request import MatrixRequest, MatrixResult, Standing
from flows.steps.stage_calls import Stage
from flows.terminal.terminal import Terminal
from stages.errors import InputError, Outcome
from tests.flows.matrix_project import LOG, MatrixProject, make_matrix_project
from tests.flows.prefect_runs import settled_tasks

pytestmark = pytest.mark.usefixtures("prefect_here")
MODELS, DEVICES = ("m0", "m1"), ("h0", "h1")
STEPS = 22


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> MatrixProject:
    """Never run."""
    return make_matrix_project(tmp_path_factory.mktemp("pristine") / "p", MODELS, DEVICES)


@pytest.fixture(scope="module")
def made(pristine: MatrixProject, tmp_path_factory: pytest.TempPathFactory) -> MatrixProject:
    """Brought up to date."""
    project = pristine.copied(tmp_path_factory.mktemp("made") / "p")
    assert run(project).outcome is Outcome.PASSED
    return project


@pytest.fixture
def project(made: MatrixProject, tmp_path: Path) -> MatrixProject:
    """A copy of what is up to date."""
    return made.copied(tmp_path / "p")


def run(
    project: MatrixProject,
    pairs: frozenset[Pair] | None = None,
    forced: frozenset[Stage] = frozenset(),
    jobs: int | None = 2,
    tags: tuple[str, ...] = (),
) -> MatrixResult:
    """Brings the project up to date."""
    return run_matrix(MatrixRequest(project.root, pairs, forced, jobs, tags), Terminal(quiet=True))


def standings(result: MatrixResult) -> dict[Standing, int]:
    """How many steps have each."""
    found = [answer.standing for answer in result.answers.values()]
    return {standing: found.count(standing) for standing in Standing if standing in found}


def in_prefect(tag: str, tasks: int) -> tuple[list[Any], list[Any], list[Any]]:
    """The flow runs of this tag, their task runs, of which there are so many, and artifacts."""
    with get_client(sync_client=True) as client:
        chosen = FlowRunFilter(tags=FlowRunFilterTags(all_=[tag]))
        runs = client.read_flow_runs(flow_run_filter=chosen)
        if not runs:
            return [], [], []
        ids = [run.id for run in runs]
        artifacts = client.read_artifacts(
            artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=ids))
        )
    return list(runs), settled_tasks(runs, tasks), artifacts


def test_all_of_it_in_order_with_names_tags_and_a_table(
    pristine: MatrixProject, tmp_path: Path
) -> None:
    project, tag = pristine.copied(tmp_path / "p"), uuid4().hex
    result = run(project, tags=(tag, "nightly"))
    assert standings(result) == {Standing.RAN: STEPS}
    assert project.status() == {}
    lines = (project.root / LOG).read_text().splitlines()
    for step in result.answers:
        for need in needs_of(step):
            assert lines.index(f"ended {_name(need)}") < lines.index(f"began {_name(step)}")
    (flow_run,), tasks, (artifact,) = in_prefect(tag, STEPS)
    assert flow_run.name == "m0, m1 on h0, h1"
    assert "nightly" in flow_run.tags
    assert flow_run.state.is_completed()
    assert flow_run.state.message == f"PASSED: {STEPS} ran"
    assert {task.name for task in tasks} == {f"{s.stage} {s.subject}" for s in result.answers}
    gate = next(task for task in tasks if task.name == "gate m1 on h0")
    assert not gate.tags  # each would cost a question to the server
    rows = json.loads(artifact.data)
    assert [(row["model"], row["device"]) for row in rows] == [
        (p.model, p.hardware) for p in result.pairs()
    ]
    assert {row["result"] for row in rows} == {"PASS"}
    assert {row["P99"] for row in rows} == {"1.21 ms"}


def _name(step: Step) -> str:
    subject = f"{step.model}-{step.hardware}" if step.hardware else step.model
    return f"{step.stage}@{subject}"


def test_where_nothing_is_stale_prefect_isn_t_asked(project: MatrixProject) -> None:
    tag = uuid4().hex
    assert standings(run(project, tags=(tag,))) == {Standing.FRESH: STEPS}
    assert in_prefect(tag, 0) == ([], [], [])
    assert project.began() == []


def test_only_what_is_stale_becomes_a_task(project: MatrixProject) -> None:
    tag = uuid4().hex
    project.change("hardware_specs/h1.yaml", "more: 1\n")
    result = run(project, tags=(tag,))
    assert standings(result) == {Standing.FRESH: STEPS - 8, Standing.RAN: 8}
    _, tasks, _ = in_prefect(tag, 10)
    assert len(tasks) == 10
    assert all(task.name.endswith("on h1") for task in tasks)
    fresh = {task.name for task in tasks if task.state.name == "Fresh"}
    assert fresh == {"gate m0 on h1", "gate m1 on h1"}  # what they read is as it was
    assert sorted(project.began()) == sorted(
        _name(step)
        for step in result.answers
        if step.hardware == "h1" and step.stage is not Stage.GATE
    )


def test_lost_results_are_restored_and_say_so(project: MatrixProject) -> None:
    before, tag = project.results(), uuid4().hex
    project.lose_results()
    assert standings(run(project, tags=(tag,))) == {Standing.RESTORED: STEPS}
    assert project.began() == []
    assert project.results() == before
    assert project.status() == {}
    _, tasks, _ = in_prefect(tag, STEPS)
    assert {task.state.name for task in tasks} == {"Restored"}


def test_verdicts_fail_the_flow_at_the_end_and_stop_nothing(project: MatrixProject) -> None:
    failing = {
        Step(Stage.VALIDATE, "m0", "h0"): Outcome.VALIDATION_FAILED,
        Step(Stage.GATE, "m0", "h1"): Outcome.GATE_FAILED,
        Step(Stage.THERMAL_STRESS, "m1", "h0"): Outcome.STRESS_FAILED,
    }
    for step in failing:
        project.mark(_name(step), "reports=failed")
    tag = uuid4().hex
    result = run(project, forced=frozenset(Stage), tags=(tag,))
    assert standings(result) == {Standing.RAN: STEPS}
    assert {s: a.outcome for s, a in result.answers.items() if a.outcome != 0} == failing
    assert result.answers[Step(Stage.GATE, "m0", "h1")].message.startswith("gate says no")
    assert result.outcome_of(Pair("m0", "h1")) is Outcome.GATE_FAILED
    assert result.outcome_of(Pair("m1", "h1")) is Outcome.PASSED
    assert result.outcome is Outcome.VALIDATION_FAILED
    (flow_run,), tasks, _ = in_prefect(tag, STEPS)
    assert flow_run.state.is_failed()
    assert sum(task.state.is_failed() for task in tasks) == len(failing)
    again = run(project)
    assert standings(again) == {Standing.FRESH: STEPS}
    assert {s: a.outcome for s, a in again.answers.items() if a.outcome != 0} == failing


def test_a_command_that_fails_stops_only_what_needs_it(
    pristine: MatrixProject, tmp_path: Path
) -> None:
    project = pristine.copied(tmp_path / "p")
    project.mark("compile@m0-h0", "echo 'error: no room' >&2; exit 4")
    project.mark("benchmark@m1-h1", "echo first; echo oops >&2; exit 99")
    result = run(project)
    compile_, benchmark = Step(Stage.COMPILE, "m0", "h0"), Step(Stage.BENCHMARK, "m1", "h1")
    assert standings(result) == {Standing.RAN: STEPS - 7, Standing.FAILED: 2, Standing.SKIPPED: 5}
    assert result.answers[compile_].outcome is Outcome.COMPILE_REFUSED
    assert result.answers[compile_].message == "no room"
    assert result.answers[benchmark].outcome is Outcome.INTERNAL_ERROR
    assert "exit code 99\nfirst\noops" in result.answers[benchmark].message
    assert result.answers[Step(Stage.GATE, "m1", "h1")].standing is Standing.SKIPPED
    assert result.answers[Step(Stage.THERMAL_STRESS, "m1", "h1")].standing is Standing.RAN
    for name in ("compile@m0-h0", "benchmark@m1-h1"):
        project.unmark(name)
    project.forget()
    assert standings(run(project)) == {Standing.FRESH: STEPS - 7, Standing.RAN: 7}
    assert project.status() == {}


def test_a_stage_that_was_killed_says_so(pristine: MatrixProject, tmp_path: Path) -> None:
    """As the kernel does when memory is short."""
    project = pristine.copied(tmp_path / "p")
    project.mark("normalize@m0", "kill -KILL $$")
    answer = run(project, frozenset({Pair("m0", "h0")})).answers[Step(Stage.NORMALIZE, "m0")]
    assert answer.standing is Standing.FAILED
    assert answer.outcome is Outcome.INTERNAL_ERROR
    assert "SIGKILL" in answer.message
    assert "fewer --jobs" in answer.message


def test_only_the_pairs_that_were_asked_for(pristine: MatrixProject, tmp_path: Path) -> None:
    project = pristine.copied(tmp_path / "p")
    result = run(project, frozenset({Pair("m1", "h0")}))
    assert standings(result) == {Standing.RAN: 6}
    assert result.pairs() == (Pair("m1", "h0"),)
    assert len(project.lock()) == 6
    with pytest.raises(InputError, match="no pair m9 on h0") as refused:
        run(project, frozenset({Pair("m9", "h0")}))
    assert "params.yaml" in refused.value.where


@pytest.mark.parametrize("jobs", [1, 3])
def test_so_many_run_at_once_and_the_results_are_the_same(
    jobs: int, made: MatrixProject, pristine: MatrixProject, tmp_path: Path
) -> None:
    project = pristine.copied(tmp_path / "p")
    for model in MODELS:
        for device in DEVICES:
            project.mark(f"thermal_stress@{model}-{device}", "sleep 0.5")
    run(project, jobs=jobs)
    lines = (project.root / LOG).read_text().splitlines()
    running = list(accumulate(1 if line.startswith("began") else -1 for line in lines))
    assert max(running) == jobs
    assert project.results() == made.results()
    assert project.lock() == made.lock()
    assert project.cache() == made.cache()
