"""A matrix on the workers of a Prefect pool: two real workers of a server on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import yaml

from flows.project.places import CACHE_VARIABLE, ROOT_VARIABLE, Project
from flows.running.flow_server import API_VARIABLE, FlowServer
from flows.steps.board import Step
from flows.steps.matrix_request import MatrixRequest, MatrixResult, Standing
from flows.steps.stage_calls import Stage
from flows.terminal.terminal import Terminal
from flows.workers.shard_parameters import Checkout
from flows.workspaces.workspace import open_workspace
from stages.errors import InputError, Outcome
from tests.flows.command import REPOSITORY
from tests.flows.copied_matrix import make_project, ran

POOL = "machines"
TEMPLATE = REPOSITORY / "deploy" / "work-pools" / "process.json"
MODELS, HARDWARE = ("m1", "m2", "m3"), ("h1", "h2")
STEPS = len(MODELS) * (1 + 5 * len(HARDWARE))
pytestmark = pytest.mark.slow


@dataclass
class Bench:
    """A server with a pool, and the workers that were started."""

    api_url: str
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def environment(self, root: Path) -> dict[str, str]:
        scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {
            **os.environ,
            "PATH": scripts,
            "PYTHONPATH": str(REPOSITORY),
            API_VARIABLE: self.api_url,
            ROOT_VARIABLE: str(root),
        }

    def prefect(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "prefect", *arguments]
        subprocess.run(command, env=self.environment(REPOSITORY), check=True, capture_output=True)

    def start_worker(self, root: Path, name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL]
        command += ["--type", "process", "--limit", "1", "--name", name]
        log = (root.parent / f"{name}.log").open("wb")
        worker = subprocess.Popen(
            command, env=self.environment(root), stdout=log, stderr=log, start_new_session=True
        )
        self.workers.append(worker)
        return worker

    def stop_workers(self) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGTERM)
        for worker in self.workers:
            try:
                worker.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()
        self.workers.clear()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    server = FlowServer(tmp_path_factory.mktemp("prefect"))
    server.open()
    server.wait_until_ready()
    bench = Bench(os.environ[API_VARIABLE])
    bench.prefect(
        "work-pool", "create", POOL, "--type", "process", "--base-job-template", str(TEMPLATE)
    )
    yield bench
    bench.stop_workers()
    server.close()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return make_project(tmp_path / "project", MODELS, HARDWARE)


def _run(
    root: Path, shards: int, absence_seconds: float = 120.0, pool: str = POOL
) -> tuple[Path, MatrixResult]:
    from flows.workers.on_workers import WorkersRequest, run_on_workers
    from flows.workers.worker_pool import Pool, run_shards

    project = Project(root)
    with open_workspace(project, "nightly", None) as folder:
        dispatch = partial(run_shards, Pool(pool, absence_seconds=absence_seconds))
        request = WorkersRequest(MatrixRequest(folder), Checkout(), dispatch, pool, shards)
        return folder, run_on_workers(request, Terminal())


def test_two_workers_run_the_shards_and_the_rest_is_restored(bench: Bench, root: Path) -> None:
    for name in ("one", "two"):
        bench.start_worker(root, name)
    folder, result = _run(root, 2)
    bench.stop_workers()
    assert result.outcome is Outcome.PASSED
    assert len(result.answers) == STEPS
    assert {answer.standing for answer in result.answers.values()} == {Standing.RESTORED}
    assert ran(folder) == []
    shards = [ran(folder.with_name(f"shard-{number}")) for number in (0, 1)]
    assert sorted(len(lines) for lines in shards) == [11, 22]
    models = [{line.split()[1] for line in lines} for lines in shards]
    assert models[0] | models[1] == set(MODELS)
    assert not models[0] & models[1]
    _, again = _run(root, 2)
    assert {answer.standing for answer in again.answers.values()} == {Standing.FRESH}


def test_without_workers_the_matrix_runs_here(
    bench: Bench, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, result = _run(root, 2, absence_seconds=3.0)
    assert result.outcome is Outcome.PASSED
    assert {answer.standing for answer in result.answers.values()} == {Standing.RAN}
    assert len(ran(folder)) == STEPS
    said = capsys.readouterr().out
    assert "no worker of 'machines' is online" in said
    assert "shard 1 gave nothing to share" in said


def test_a_shard_whose_process_is_killed_is_named_and_runs_here(
    bench: Bench, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _kill_on(root, "m1")
    bench.start_worker(root, "one")
    folder, result = _run(root, 3)
    bench.stop_workers()
    assert result.outcome is Outcome.PASSED
    standings = {step.model: answer.standing for step, answer in result.answers.items()}
    assert standings["m2"] == standings["m3"] == Standing.RESTORED
    assert result.answers[_compile(result, "m1")].standing is Standing.RAN
    said = capsys.readouterr().out
    assert "gave nothing to share" in said
    assert {line.split()[1] for line in ran(folder)} == {"m1"}


def _kill_on(root: Path, model: str) -> None:
    """The first time that a shard compiles the model, its flow run's process is killed."""
    path = root / "dvc.yaml"
    content = yaml.safe_load(path.read_text())
    stage = content["stages"]["compile"]
    first = f"mkdir {root.parent / 'killed'} 2>/dev/null"
    kill = f'if [ "${{item.model}}" = {model} ] && {first}; then kill -9 $PPID; sleep 9; fi'
    stage["cmd"] = f"{kill}; {stage['cmd']}"
    path.write_text(yaml.safe_dump(content))


def _compile(result: MatrixResult, model: str) -> Step:
    return next(
        step for step in result.answers if step.stage is Stage.COMPILE and step.model == model
    )


def test_a_pool_that_is_not_there_is_named(bench: Bench, root: Path) -> None:
    with pytest.raises(InputError, match="no work pool 'nowhere'"):
        _run(root, 2, pool="nowhere")
