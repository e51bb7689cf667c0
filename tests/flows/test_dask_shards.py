"""A matrix on a Dask cluster: a scheduler and two workers on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from flows.project.places import CACHE_VARIABLE, Project
from flows.running.flow_server import API_VARIABLE, FlowServer
from flows.steps.matrix_request import MatrixRequest, Standing
from flows.terminal.terminal import Terminal
from flows.workers.shard_parameters import Checkout, ShardParameters
from flows.workspaces.workspace import open_workspace
from stages.errors import InputError, Outcome
from tests.flows.command import REPOSITORY
from tests.flows.copied_matrix import make_project, ran

pytestmark = pytest.mark.slow
_ADDRESS = "tcp://"


@contextmanager
def _process(*arguments: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _address(scheduler: subprocess.Popen[str]) -> str:
    assert scheduler.stderr is not None
    for line in scheduler.stderr:
        if "Scheduler at:" in line:
            return _ADDRESS + line.rsplit(_ADDRESS, 1)[1].strip()
    raise AssertionError("the scheduler ended")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    server = FlowServer(tmp_path / "prefect")
    server.open()
    server.wait_until_ready()
    yield
    server.close()


@contextmanager
def _cluster(workers: int, threads: int) -> Iterator[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    scheduler = ("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0")
    with _process(*scheduler, "--no-dashboard", environment=environment) as process:
        address = _address(process)
        worker = ("distributed.cli.dask_worker", address, "--nworkers", str(workers))
        options = ("--nthreads", str(threads), "--no-dashboard", "--host", "127.0.0.1")
        with _process(*worker, *options, environment=environment):
            yield address


def test_two_dask_workers_run_the_shards(server: None, tmp_path: Path) -> None:
    from flows.workers.dask_shards import Cluster, run_shards
    from flows.workers.on_workers import WorkersRequest, run_on_workers

    assert API_VARIABLE in os.environ
    root = make_project(tmp_path / "project", ("m1", "m2"), ("h1", "h2"))
    with _cluster(2, 1) as address, open_workspace(Project(root), "nightly", None) as folder:
        request = WorkersRequest(
            MatrixRequest(folder),
            Checkout(project=str(root)),
            partial(run_shards, Cluster(address)),
            address,
            2,
        )
        result = run_on_workers(request, Terminal())
    assert result.outcome is Outcome.PASSED
    assert {answer.standing for answer in result.answers.values()} == {Standing.RESTORED}
    assert ran(folder) == []
    shards = [ran(folder.with_name(f"shard-{number}")) for number in (0, 1)]
    assert [len(lines) for lines in shards] == [11, 11]


def test_workers_with_several_threads_and_no_cluster_are_refused() -> None:
    from flows.workers.dask_shards import Cluster, run_shards

    shard = ShardParameters(0, ())
    with _cluster(1, 3) as address, pytest.raises(InputError, match="3 threads"):
        run_shards(Cluster(address), [shard], print)
    with pytest.raises(InputError, match="no Dask cluster"):
        run_shards(Cluster("tcp://127.0.0.1:1", join_seconds=1.0), [shard], print)
