"""The merge gate: what a branch does to every pair, before it is merged.

Importing this module imports Prefect and DVC.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, tags
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from flows.matrix import run_matrix
from flows.merging.result import MergeGateResult, MergeRequest, judge_request
from flows.project.places import Project, project_at
from flows.running.flow_call import FlowCall, FlowCalls, headline_state, publishing
from flows.terminal.outcomes import printable
from flows.terminal.terminal import Terminal
from stages.comparison.merge_rule import PairVerdict
from stages.report.merge_table import merge_rows

SUMMARY_KEY, TABLE_KEY = "merge-gate", "merge-gate-pairs"
_OUT = "out"


@dataclass(frozen=True, slots=True)
class _Given:
    """Where to write, and how to speak."""

    out: Path
    terminal: Terminal


_calls: FlowCalls[_Given, MergeGateResult] = FlowCalls("merge_gate")


def run_merge_gate(
    project: Project, request: MergeRequest, out: Path, terminal: Terminal
) -> MergeGateResult:
    """Judges a merge with the engine, and leaves its report as files and artifacts.

    Raises:
        RecipeError: as `flows.merging.result.judge_request`.
    """
    result = judge_request(project, request, out, terminal, run_matrix)
    _publish(result)
    return result


def _publish(result: MergeGateResult) -> None:
    with publishing("the merge gate's report"):
        create_markdown_artifact(result.markdown, key=SUMMARY_KEY, description=result.headline)
        shown = [p for p in result.report.judgement.pairs if p.verdict is not PairVerdict.UNCHANGED]
        if rows := merge_rows(shown):
            create_table_artifact(rows, key=TABLE_KEY, description="Changed pairs, worst first")


def call_merge_gate(
    project: Project, request: MergeRequest, out: Path, terminal: Terminal
) -> MergeGateResult:
    """`run_merge_gate` as a flow run, for a command.

    Raises:
        RecipeError: as `run_merge_gate`.
    """

    def start() -> State[Any]:
        with tags("merge gate", f"base {printable(request.base)}"):
            return merge_gate(
                str(project.root),
                request.base,
                request.head,
                request.repository or None,
                request.jobs,
                return_state=True,
            )

    return _calls.make(_Given(out, terminal), start)


def _flow_run_name() -> str:
    given = flow_run.parameters
    head = given["head"] or ("branch" if given["repository"] else "working tree")
    where = f"{given['repository']}: " if given["repository"] else ""
    return f"merge gate: {where}{given['base']}..{head}"


@flow(name="merge gate", flow_run_name=_flow_run_name)
def merge_gate(
    project: str,
    base: str,
    head: str | None = None,
    repository: str | None = None,
    jobs: int | None = None,
) -> State[Any]:
    """What a branch does to every pair, against the commit where it left its base.

    `project` is the folder that holds params.yaml; empty means this worker's own. `head` is
    its files as they are unless given. `repository` names a model
    repository, whose commits `base` and `head` then are.
    """
    own = project_at(project)
    call = _calls.current() or FlowCall(_Given(own.root / _OUT, Terminal()))
    request = MergeRequest(base, head, repository or "", jobs)
    given = call.given
    call.result = result = run_merge_gate(own, request, given.out, given.terminal)
    said = printable(result.headline)
    get_run_logger().info("%s", said)
    return headline_state(result.outcome, said)
