"""Runs that a kill left RUNNING: each run of ours is tagged with its process, so that the next one
can tell that the process is gone, and say so in Prefect."""

from __future__ import annotations

import os
import socket

import psutil
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterState,
    FlowRunFilterStateType,
    TaskRunFilter,
    TaskRunFilterState,
    TaskRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import Crashed

_PREFIX = "process:"
_ALIVE = [StateType.RUNNING, StateType.PENDING]
_CLOCK_SECONDS = 2.0
_MESSAGE = "its process was killed; results that it saved are kept"


def own_tag() -> str:
    """The tag of this process: the host, the number, and when it began, in seconds."""
    began = int(psutil.Process().create_time())
    return f"{_PREFIX}{socket.gethostname()}/{os.getpid()}/{began}"


def sweep_dead_runs() -> int:
    """Marks runs of this host whose process is gone as crashed; gives their number."""
    running = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_ALIVE)))
    with get_client(sync_client=True) as client:
        dead = [run for run in client.read_flow_runs(flow_run_filter=running) if _is_dead(run)]
        for run in dead:
            _mark(client, run)
    return len(dead)


def _is_dead(run: FlowRun) -> bool:
    tag = next((tag for tag in run.tags if tag.startswith(_PREFIX)), "")
    host, _, rest = tag.removeprefix(_PREFIX).rpartition("/")[0].partition("/")
    began = tag.rpartition("/")[2]
    if host != socket.gethostname() or not rest.isdigit() or not began.isdigit():
        return False
    try:
        created = psutil.Process(int(rest)).create_time()
    except psutil.NoSuchProcess:
        return True
    return bool(abs(created - int(began)) > _CLOCK_SECONDS)


def _mark(client: SyncPrefectClient, run: FlowRun) -> None:
    tasks = client.read_task_runs(
        flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[run.id])),
        task_run_filter=TaskRunFilter(
            state=TaskRunFilterState(type=TaskRunFilterStateType(any_=_ALIVE))
        ),
    )
    for task in tasks:
        client.set_task_run_state(task.id, Crashed(message=_MESSAGE), force=True)
    client.set_flow_run_state(run.id, Crashed(message=_MESSAGE), force=True)
