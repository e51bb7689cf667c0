"""Deployments on a user's own Prefect server: from a push to a run, and from prefect.yaml."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
import yaml
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.project.places import Project
from flows.running.flow_server import server_command
from flows.serving import PUSHED, ServeOptions, make_deployments, pause_others
from stages.errors import InputError, Outcome
from tests.flows.command import REPOSITORY, command_environment, recipe
from tests.flows.git_repositories import ENVIRONMENT, make_project

_PATIENCE_SECONDS = 120.0
_Found = TypeVar("_Found")


def eventually(look: Callable[[], _Found | None], what: str) -> _Found:
    """What `look` finds, within two minutes."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.2)
    pytest.fail(f"waited in vain for {what}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of the user's own, with all its services."""
    home = tmp_path_factory.mktemp("prefect")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {"PREFECT_HOME": str(home), "PREFECT_UI_ENABLED": "false"}
    log = (home / "server.log").open("w")
    process = subprocess.Popen(
        server_command(port), env={**os.environ, **settings}, stdout=log, stderr=log
    )
    api = f"http://127.0.0.1:{port}/api"
    with temporary_settings({PREFECT_API_URL: api}), get_client(sync_client=True) as client:
        eventually(lambda: client.api_healthcheck() is None, "the server")
        yield api
    process.terminate()
    process.wait(30)


@pytest.fixture
def client(server: str) -> Iterator[SyncPrefectClient]:
    """Asks the server."""
    with get_client(sync_client=True) as client:
        yield client


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project that follows the model repository `team`, in which there is no model."""
    repository, project = make_project(tmp_path / "project")
    repository.write("params.yaml", "nightly: {cron: '30 3 * * *', timezone: Europe/Berlin}\n")
    follow = {"team": {"url": "../team.git", "poll": "0 0 1 1 *"}}
    repository.write("models/repositories.yaml", yaml.safe_dump(follow))
    repository.commit("follows team")
    return project


@pytest.fixture
def push(tmp_path: Path, server: str) -> Callable[[str], str]:
    """Pushes a commit to a branch of team.git, which has the hook; gives the hook's words."""

    def git(folder: Path, *arguments: str) -> str:
        ended = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env={**os.environ, **ENVIRONMENT},
            capture_output=True,
            text=True,
            check=True,
        )
        return ended.stderr

    bare, work = tmp_path / "team.git", tmp_path / "work"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    shutil.copy(REPOSITORY / "docs" / "ci" / "post-receive", bare / "hooks")
    git(bare, "config", "recipe.prefectApi", server)
    git(tmp_path, "clone", "-q", str(bare), str(work))

    def commit_and_push(branch: str) -> str:
        (work / "README.md").write_text(f"{time.monotonic()}")
        git(work, "add", "README.md")
        git(work, "commit", "-q", "-m", "words")
        return git(work, "push", "origin", f"HEAD:refs/heads/{branch}")

    return commit_and_push


@contextmanager
def serving(project: Project, server: str) -> Iterator[subprocess.Popen[str]]:
    """`recipe serve` in the project's folder."""
    process = subprocess.Popen(
        [sys.executable, "-m", "flows", "serve"],
        cwd=project.root,
        env=command_environment()
        | {
            "PREFECT_API_URL": server,
            "PREFECT_RUNNER_POLL_FREQUENCY": "1",
            "RECIPE_CACHE": str(project.root / ".cache"),
            "PYTHONUNBUFFERED": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)


def deployments(client: SyncPrefectClient) -> dict[str, Any]:
    """All of the server's, by FLOW/NAME."""
    found = client.read_deployments()
    return {f"{client.read_flow(each.flow_id).name}/{each.name}": each for each in found}


def automations(client: SyncPrefectClient) -> list[Any]:
    """All of the server's."""
    return list(client.request("POST", "/automations/filter", json={}).json())


def runs_of(client: SyncPrefectClient, name: str) -> list[Any]:
    """Runs of a deployment that weren't scheduled by its own schedule."""
    deployment = deployments(client).get(name)
    runs = client.read_flow_runs() if deployment else []
    return [
        run
        for run in runs
        if deployment is not None and run.deployment_id == deployment.id and not run.auto_scheduled
    ]


def test_without_a_server_the_cure_is_said(project: Project, tmp_path: Path) -> None:
    ended = recipe("serve", cwd=project.root, PREFECT_HOME=str(tmp_path / "home"))
    assert ended.code == Outcome.BAD_INPUT
    assert "no Prefect server to serve on" in ended.err
    assert "prefect server start" in ended.err


def test_a_server_that_is_down_is_said(project: Project) -> None:
    ended = recipe("serve", cwd=project.root, PREFECT_API_URL="http://127.0.0.1:9/api")
    assert ended.code == Outcome.BAD_INPUT
    assert "no Prefect server answers" in ended.err
    assert "at: PREFECT_API_URL=http://127.0.0.1:9/api" in ended.err


@pytest.mark.parametrize("wrong", ["cron: every night", "timezone: Atlantis/Capital"])
def test_a_wrong_schedule_is_refused_by_its_place(project: Project, wrong: str) -> None:
    project.params.write_text(f"nightly: {{{wrong}}}\n")
    with pytest.raises(InputError, match="no schedule") as caught:
        make_deployments(project, ServeOptions())
    assert "params.yaml" in caught.value.where
    assert make_deployments(project, ServeOptions(cron="0 4 * * *", timezone="UTC"))


def test_a_wrong_poll_names_its_repository(project: Project) -> None:
    file = project.root / "models" / "repositories.yaml"
    file.write_text("team: {url: ../team.git, poll: sometimes}\n")
    with pytest.raises(InputError, match="sometimes") as caught:
        make_deployments(project, ServeOptions())
    assert "`poll` of 'team'" in caught.value.where


def test_every_flow_has_its_schedule_trigger_and_limit(project: Project) -> None:
    served = {each.name: each for each in make_deployments(project, ServeOptions(jobs=3))}
    assert {name: each.when for name, each in served.items()} == {
        "commit/team": f"on {PUSHED} and at '0 0 1 1 *' Europe/Berlin",
        "nightly/nightly": "at '30 3 * * *' Europe/Berlin",
        "merge gate/merge-gate": "when asked",
    }
    limits = {name: each.deployment.concurrency_options for name, each in served.items()}
    assert {name: limit and limit.collision_strategy.value for name, limit in limits.items()} == {
        "commit/team": "ENQUEUE",
        "nightly/nightly": "CANCEL_NEW",
        "merge gate/merge-gate": "ENQUEUE",
    }
    assert {each.deployment.concurrency_limit for each in served.values()} == {1}
    assert all(each.deployment.parameters["jobs"] == 3 for each in served.values())


def test_from_a_push_to_a_run_over_a_restart(
    project: Project, server: str, client: SyncPrefectClient, push: Callable[[str], str]
) -> None:
    with serving(project, server) as served:
        eventually(lambda: len(deployments(client)) == 3, "the deployments")
        eventually(lambda: len(automations(client)) == 1, "the automation")
        before = {name: each.id for name, each in deployments(client).items()}
        assert set(before) == {"commit/team", "nightly/nightly", "merge gate/merge-gate"}
        assert "the pipeline knows of it" in push("main")
        first = eventually(lambda: runs_of(client, "commit/team"), "a run")
        run = eventually(lambda: _ended(client, first[0].id), "its end")
        assert run.state.is_completed(), run.state.message
        assert "team" in run.state.message
        push("other")  # which repositories.yaml doesn't follow
        eventually(lambda: not psutil.Process(served.pid).children(), "its process's end")
    push("main")  # while nobody serves
    eventually(lambda: len(runs_of(client, "commit/team")) == 2, "a run that waits")
    with serving(project, server):
        eventually(lambda: len(runs_of(client, "commit/team")) == 3, "a run that catches up")
        ended = eventually(lambda: _all_ended(client), "the runs that waited")
        assert [state.name for state in ended] == ["Completed"] * 3
        assert {name: each.id for name, each in deployments(client).items()} == before
        assert len(automations(client)) == 1
        assert [len(each.schedules) for each in deployments(client).values()].count(1) == 2
    (project.root / "models" / "repositories.yaml").write_text("{}\n")
    rest = make_deployments(project, ServeOptions())
    assert pause_others(project, rest) == ["commit/team"]
    assert automations(client) == []
    assert deployments(client)["commit/team"].paused
    assert pause_others(project, rest) == []


def _ended(client: SyncPrefectClient, run_id: Any) -> Any:
    run = client.read_flow_run(run_id)
    return run if run.state is not None and run.state.is_final() else None


def _all_ended(client: SyncPrefectClient) -> list[Any]:
    states = [run.state for run in runs_of(client, "commit/team")]
    return states if all(state.is_final() for state in states) else []


def test_prefect_yaml_deploys_the_same_on_a_work_pool(
    project: Project, server: str, client: SyncPrefectClient, push: Callable[[str], str]
) -> None:
    client.create_work_pool(WorkPoolCreate(name="recipe", type="process"))
    subprocess.run(
        [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"],
        cwd=REPOSITORY,
        env=command_environment() | {"PREFECT_API_URL": server},
        check=True,
        capture_output=True,
    )
    found = deployments(client)
    commit, nightly = found["commit/commit"], found["nightly/nightly"]
    assert {each.work_pool_name for each in (commit, nightly)} == {"recipe"}
    assert (commit.parameters, commit.pull_steps) == ({"project": ""}, [])
    assert [each.schedule.cron for each in nightly.schedules] == ["0 2 * * *"]
    assert commit.global_concurrency_limit.limit == 1
    push("other")
    push("main")
    (run,) = eventually(lambda: runs_of(client, "commit/commit"), "a run for a worker")
    assert run.parameters == {"project": "", "repository": "team"}
    with serving(project, server):  # which takes them over
        ours = str(project.root)
        eventually(lambda: _project(client, "nightly/nightly") == ours, "the night's new project")


def _project(client: SyncPrefectClient, name: str) -> Any:
    return deployments(client)[name].parameters["project"]


def test_the_kubernetes_template_is_one(client: SyncPrefectClient) -> None:
    path = REPOSITORY / "docs" / "ci" / "kubernetes-job-template.json"
    template = json.loads(path.read_text())
    wanted = WorkPoolCreate(name="cluster", type="kubernetes", base_job_template=template)
    made = client.create_work_pool(wanted)
    variables = set(template["variables"]["properties"])
    used = set(_placeholders(template["job_configuration"]))
    assert used == variables
    assert made.base_job_template == template


def _placeholders(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _placeholders(each)
    elif isinstance(value, list):
        for each in value:
            yield from _placeholders(each)
    elif isinstance(value, str) and "{{" in value:
        yield value.partition("{{")[2].partition("}}")[0].strip()
