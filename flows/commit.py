"""Every commit of a model repository: what it changes is run, on every device, and kept.

Importing this module imports Prefect.
"""

from __future__ import annotations

from typing import Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from flows.matrix import run_matrix
from flows.project.places import Project, project_at
from flows.repositories.commit_plan import CommitRequest
from flows.repositories.commit_results import CommitResult
from flows.repositories.commit_run import process_commit
from flows.running.flow_call import FlowCall, FlowCalls, headline_state, publishing
from flows.terminal.outcomes import printable
from flows.terminal.terminal import Terminal

REPORT_KEY = "commit-report"
_calls: FlowCalls[Terminal, CommitResult] = FlowCalls("commit")


def run_commit(project: Project, request: CommitRequest, terminal: Terminal) -> CommitResult:
    """Processes a range of commits with the engine, and leaves the report as an artifact.

    Raises:
        GitError: the repository can't be fetched, or has no such branch or commit.
        InputError: a configuration is wrong, or a file can't be written.
        HardwareSpecError: no such device.
    """
    result = process_commit(project, request, terminal, run_matrix)
    _publish(result)
    return result


def _publish(result: CommitResult) -> None:
    if result.folder is None:
        return
    with publishing("the commit's report"):
        create_markdown_artifact(
            result.report, key=REPORT_KEY, description=printable(result.headline)
        )


def call_commit(project: Project, request: CommitRequest, terminal: Terminal) -> CommitResult:
    """`run_commit` as a flow run, for a command.

    Raises:
        RecipeError: as `run_commit`.
    """

    def start() -> State[Any]:
        return commit(
            str(project.root),
            request.repository,
            request.since,
            request.until,
            list(request.hardware),
            request.jobs,
            return_state=True,
        )

    return _calls.make(terminal, start)


def _flow_run_name() -> str:
    given = flow_run.parameters
    ends = (given["since"] or "", given["until"] or "")
    name = f"{given['repository']} {'..'.join(ends)}" if any(ends) else given["repository"]
    return printable(str(name))


@flow(name="commit", flow_run_name=_flow_run_name)
def commit(
    project: str,
    repository: str,
    since: str | None = None,
    until: str | None = None,
    hardware: list[str] | None = None,
    jobs: int | None = None,
) -> State[Any]:
    """The models of a repository that a range of commits touches, on every device.

    `project` is the folder that holds params.yaml; empty means this worker's own. Without
    `since` the range begins after the last commit processed; without `until` it ends at the
    branch's head.
    """
    call = _calls.current() or FlowCall(Terminal())
    request = CommitRequest(repository, since, until, tuple(hardware or ()), jobs)
    call.result = result = run_commit(project_at(project), request, call.given)
    headline = printable(result.headline)
    get_run_logger().info("%s", headline)
    return headline_state(result.outcome, headline)
