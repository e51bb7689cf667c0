"""Runs of the matrix that are killed, interrupted, disturbed, or that lose their flow server."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.project.places import Project
from stages.errors import Outcome
from tests.flows.command import REPOSITORY, command_environment
from tests.flows.kill_campaign import COMMAND, Campaign, Moment
from tests.flows.matrix_project import MatrixProject

STEPS = 12
_LONGEST_SECONDS = 240


@pytest.fixture(scope="module")
def campaign(flow_server: str, tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Two models on one device, never run and run in peace; runs use the shared flow server."""
    home = Project(REPOSITORY).cache
    return Campaign.make(tmp_path_factory.mktemp("campaign"), 2, 1, home)


@pytest.fixture
def project(campaign: Campaign, tmp_path: Path) -> MatrixProject:
    """Never run."""
    return campaign.pristine.copied(tmp_path / "p")


@pytest.mark.parametrize("whole_group", [False, True])
def test_a_killed_run_loses_only_what_was_in_flight(
    whole_group: bool, campaign: Campaign, tmp_path: Path
) -> None:
    generator = random.Random(7 + whole_group)
    moment = Moment(generator.randint(5, 2 * STEPS - 4), 0.05, whole_group)
    after = campaign.kill(tmp_path / "p", moment)
    assert after.killed
    assert after.problems == []


def await_commands(project: MatrixProject, count: int, process: subprocess.Popen[str]) -> None:
    """Until so many commands began."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    while len(project.began()) < count and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def test_an_interrupted_run_records_what_ended(campaign: Campaign, project: MatrixProject) -> None:
    for name in ("thermal_stress@m0-h0", "thermal_stress@m1-h0"):
        project.mark(name, "sleep 60")
    process = campaign.start(project)
    await_commands(project, 5, process)
    while not any("thermal" in name for name in project.began()):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=_LONGEST_SECONDS)
    assert process.returncode == Outcome.INTERRUPTED, err
    assert "interrupted: finished stages keep their results" in err
    assert "Traceback" not in err
    recorded = set(project.lock())
    assert recorded <= set(project.ended())
    assert recorded
    for name in ("thermal_stress@m0-h0", "thermal_stress@m1-h0"):
        project.unmark(name)
    project.forget()
    assert campaign.run(project).code == Outcome.PASSED
    assert len(project.began()) == STEPS - len(recorded)
    assert project.results() == campaign.undisturbed.results()
    assert project.status() == {}


def test_a_second_run_waits_and_says_for_whom(campaign: Campaign, project: MatrixProject) -> None:
    project.mark("normalize@m0", "while [ ! -e go ]; do sleep 0.1; done")
    first = campaign.start(project)
    await_commands(project, 1, first)
    second = campaign.start(project)
    assert second.stdout is not None
    line = second.stdout.readline()
    assert line.startswith(f"waiting for the results of p: held by process {first.pid} (")
    assert "flow nightly --only-stale" in line
    (project.root / "go").touch()
    for process in (first, second):
        _, err = process.communicate(timeout=_LONGEST_SECONDS)
        assert process.returncode == Outcome.PASSED, err
    assert len(project.began()) == STEPS
    assert project.status() == {}


def test_a_flow_server_that_dies_ends_the_run_and_loses_nothing(
    campaign: Campaign, project: MatrixProject, tmp_path: Path
) -> None:
    for name in ("thermal_stress@m0-h0", "thermal_stress@m1-h0"):
        project.mark(name, "sleep 60")
    own_home = tmp_path / "cache"  # whose flow server is nobody else's
    process = campaign.start(project, own_home)
    await_commands(project, 4, process)
    while not any("thermal" in name for name in project.began()):
        time.sleep(0.01)
    server = json.loads((own_home / "prefect" / "server.json").read_text())
    os.kill(server["pid"], signal.SIGKILL)
    _, err = process.communicate(timeout=_LONGEST_SECONDS)
    assert process.returncode == Outcome.INTERNAL_ERROR, err
    assert "error: the flow server died in the middle of the run" in err
    assert "server.log" in err
    assert "Traceback" not in err
    assert "bug" not in err
    assert project.lock()
    for name in ("thermal_stress@m0-h0", "thermal_stress@m1-h0"):
        project.unmark(name)
    done = set(project.lock())
    project.forget()
    assert campaign.run(project).code == Outcome.PASSED
    assert done.isdisjoint(project.began())
    assert project.status() == {}


def test_a_server_that_isn_t_there_is_said_at_once(
    campaign: Campaign, project: MatrixProject
) -> None:
    ended = subprocess.run(
        [sys.executable, *COMMAND],
        cwd=project.root,
        env=command_environment() | {"PREFECT_API_URL": "http://127.0.0.1:9/api"},
        capture_output=True,
        text=True,
        timeout=_LONGEST_SECONDS,
        check=False,
    )
    assert ended.returncode == Outcome.BAD_INPUT
    assert (
        "error: no flow server answers\nat: PREFECT_API_URL=http://127.0.0.1:9/api" in ended.stderr
    )
    assert project.began() == []
