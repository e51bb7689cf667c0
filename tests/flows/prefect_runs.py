"""What Prefect keeps of the runs that this process began: the other tests share its server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterTags,
)
from prefect.client.schemas.sorting import FlowRunSort

from flows.running.dead_runs import own_tag

PATIENCE_S = 60.0
"""How long a busy server may take to hear of what has happened."""


def newest_run(flow: str) -> Any:
    """The newest run of the flow of this name."""
    named = FlowFilter(name=FlowFilterName(any_=[flow]))
    ours = FlowRunFilter(tags=FlowRunFilterTags(all_=[own_tag()]))
    newest = FlowRunSort.START_TIME_DESC
    with get_client(sync_client=True) as client:
        (run,) = client.read_flow_runs(
            flow_filter=named, flow_run_filter=ours, sort=newest, limit=1
        )
    return run


def artifacts_of(run: Any) -> dict[str | None, Any]:
    """A run's artifacts by key."""
    wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
    with get_client(sync_client=True) as client:
        return {
            artifact.key: artifact for artifact in client.read_artifacts(artifact_filter=wanted)
        }


def tasks_of(run: Any, count: int) -> set[str]:
    """The names of a run's tasks, of which there are so many."""
    return {task.name for task in settled_tasks([run], count)}


def settled_tasks(runs: Sequence[Any], count: int) -> list[Any]:
    """The task runs of these flow runs, once so many have ended.

    Prefect's server takes task runs from a stream of events: it hears of them after the flow.
    """
    wanted = FlowRunFilter(id=FlowRunFilterId(any_=[run.id for run in runs]))
    deadline = time.monotonic() + PATIENCE_S
    with get_client(sync_client=True) as client:
        while True:
            tasks = client.read_task_runs(flow_run_filter=wanted)
            ended = sum(task.state is not None and task.state.is_final() for task in tasks)
            if ended == len(tasks) >= count or time.monotonic() > deadline:
                return list(tasks)
            time.sleep(0.2)
