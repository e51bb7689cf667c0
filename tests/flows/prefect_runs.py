"""What Prefect keeps of the runs that this process began: the other tests share its server."""

from __future__ import annotations

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


def tasks_of(run: Any) -> set[str]:
    """The names of a run's tasks."""
    wanted = FlowRunFilter(id=FlowRunFilterId(any_=[run.id]))
    with get_client(sync_client=True) as client:
        return {task.name for task in client.read_task_runs(flow_run_filter=wanted)}
