"""The flow on Prefect's own server: order, failures side by side, retries, names, the artifact."""

from __future__ import annotations

import json
import time
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flows.chain_run import open_session, run_session
from flows.project.models import ModelRequest
from flows.project.params import Params
from flows.project.places import Project
from flows.project.requests import DeviceRequest, Pair, RunRequest
from flows.running.run_session import RunSession
from flows.steps.board import Step, steps_of
from flows.steps.stage_calls import Stage, StageFailure
from flows.terminal.outcomes import worst
from flows.terminal.terminal import Terminal
from stages.errors import Outcome
from tests.flows import fake_stages
from tests.flows.command import REPOSITORY
from tests.flows.fake_stages import Calls
from tests.flows.prefect_runs import PATIENCE_S


@pytest.fixture
def project(prefect_here: str) -> Project:
    """A project beside a flow server that runs."""
    return Project(REPOSITORY)


def take(
    project: Project, out: Path, calls: Calls, models: str = "m1", devices: str = "hw1 hw2"
) -> RunSession:
    """Takes fake stages through the flow."""
    request = RunRequest(
        models=tuple(ModelRequest(name, name, project) for name in models.split()),
        devices=tuple(DeviceRequest(name, Path(f"{name}.yaml")) for name in devices.split()),
        bindings={},
        quantization=None,
        out=out,
        jobs=2,
        params=Params(),
        project=project,
    )
    session = open_session(request, Terminal(quiet=True))
    session.calls = calls
    run_session(session)
    return session


def ask(project: Project, path: str, body: dict[str, Any]) -> Any:
    """Asks the flow server's API."""
    port = json.loads((project.cache / "prefect" / "server.json").read_text())["port"]
    question = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/{path}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(question, timeout=30) as answer:
        return json.load(answer)


def last_flow_run(project: Project, name: str) -> dict[str, Any]:
    """The newest flow run of this name."""
    wanted = {"flow_runs": {"name": {"any_": [name]}}, "sort": "START_TIME_DESC", "limit": 1}
    runs = ask(project, "flow_runs/filter", wanted)
    assert isinstance(runs[0], dict)
    return runs[0]


def task_runs(project: Project, flow_run: dict[str, Any], count: int) -> dict[str, Any]:
    """The `count` task runs of a flow run, by name, once the server has recorded their ends."""
    wanted = {"flow_runs": {"id": {"any_": [flow_run["id"]]}}}
    deadline = time.monotonic() + PATIENCE_S
    while True:
        runs = ask(project, "task_runs/filter", wanted)
        ended = [run for run in runs if run["state_type"] in ("COMPLETED", "FAILED")]
        if len(ended) == count or time.monotonic() > deadline:
            return {run["name"]: run for run in ended}
        time.sleep(0.1)


def test_every_stage_of_every_pair_runs_and_models_are_normalised_once(
    project: Project, tmp_path: Path
) -> None:
    session = take(project, tmp_path, Calls(), models="m1 m2")
    assert worst(session.board.outcomes()) is Outcome.PASSED
    assert len(session.board.answers) == 2 + 2 * 2 * 5
    flow_run = last_flow_run(project, "m1, m2 on hw1, hw2")
    assert flow_run["state_type"] == "COMPLETED"
    names = set(task_runs(project, flow_run, 22))
    expected = {f"{step.stage} {step.subject}" for pair in session.request.pairs()
                for step in steps_of(pair)}  # fmt: skip
    assert names == expected
    assert "normalize m1" in names
    assert "thermal_stress m2 on hw2" in names


def test_a_failing_pair_hides_no_other(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = Calls(
        {
            Step(Stage.COMPILE, "m1", "hw1"): fake_stages.refused,
            Step(Stage.GATE, "m1", "hw2"): fake_stages.gate_failed,
            Step(Stage.BENCHMARK, "m1", "hw3"): fake_stages.crashed,
        }
    )
    session = take(project, tmp_path, calls, devices="hw1 hw2 hw3 hw4")
    reached = {
        name: [step.stage for step in steps_of(Pair("m1", name)) if session.board.result(step)]
        for name in ("hw1", "hw2", "hw3", "hw4")
    }
    assert reached["hw1"] == [Stage.NORMALIZE]
    assert reached["hw2"] == list(Stage)
    assert set(Stage) - set(reached["hw3"]) == {Stage.BENCHMARK, Stage.GATE}
    assert reached["hw4"] == list(Stage)
    assert worst(session.board.outcomes()) is Outcome.INTERNAL_ERROR
    shown = capsys.readouterr().err
    assert "error: %x needs 9 bytes more\nat: conv1\nhint: use a smaller tile\n" in shown
    assert "Prefect" not in shown
    flow_run = last_flow_run(project, "m1 on 4 devices")
    assert flow_run["state_type"] == "FAILED"
    assert flow_run["state"]["message"] == "INTERNAL_ERROR, exit code 1"
    states = {name: run["state_name"] for name, run in task_runs(project, flow_run, 21).items()}
    assert states["compile m1 on hw1"] == "Failed"
    assert states["validate m1 on hw1"] == "Skipped"
    assert states["gate m1 on hw2"] == "Failed"
    assert states["thermal_stress m1 on hw3"] == "Completed"


def test_a_device_that_answers_late_is_asked_again(project: Project, tmp_path: Path) -> None:
    step = Step(Stage.BENCHMARK, "m1", "hw1")
    attempts = tmp_path / "attempts"
    late = partial(fake_stages.reachable_at_last, attempts, Stage.BENCHMARK)
    session = take(project, tmp_path, Calls({step: late}), devices="hw1")
    assert attempts.read_text() == "xx"
    assert worst(session.board.outcomes()) is Outcome.PASSED
    assert session.board.result(Step(Stage.GATE, "m1", "hw1")) is not None


def test_nothing_else_is_tried_again(project: Project, tmp_path: Path) -> None:
    step = Step(Stage.BENCHMARK, "broken", "hw1")
    calls = Calls({step: fake_stages.broken})
    session = take(project, tmp_path, calls, models="broken", devices="hw1")
    answer = session.board.answers[step]
    assert isinstance(answer, StageFailure)
    assert (
        task_runs(project, last_flow_run(project, "broken on hw1"), 6)["benchmark broken on hw1"][
            "run_count"
        ]
        == 1
    )


def test_the_artifact_holds_a_row_for_each_stage(project: Project, tmp_path: Path) -> None:
    take(project, tmp_path, Calls(), models="a_b", devices="hw1")
    wanted = {"artifacts": {"key": {"any_": ["recipe-run"]}}, "sort": "CREATED_DESC", "limit": 9}
    texts = [artifact["data"] for artifact in ask(project, "artifacts/filter", wanted)]
    text = next(text for text in texts if "a\\_b on hw1" in text)
    assert "### a\\_b on hw1" in text
    for stage in Stage:
        assert f"| {stage} | PASS | fine |" in text.replace("\\_", "_")


def test_the_engines_share_of_the_time_is_known(project: Project, tmp_path: Path) -> None:
    session = take(project, tmp_path, Calls(seconds=0.2), devices="hw1")
    assert 0.2 * 4 <= session.clock.busy_seconds() < 10
    assert session.clock.idle_seconds() > 0
