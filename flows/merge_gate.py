"""The merge gate: what a branch does to every pair, before it is merged.

Importing this module imports Prefect and DVC.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, tags
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from flows.file_lock import warn
from flows.files import write_beside
from flows.matrix_request import RESULTS_FOLDER
from flows.merge_comparison import HEAD, compare
from flows.merge_source import MergeSource, project_source
from flows.outcomes import printable
from flows.places import Project, project_at, require_writable
from flows.terminal import Terminal
from flows.workspace import workspace_folder
from stages.errors import Outcome
from stages.evaluation.merge_rule import PairVerdict
from stages.report.merge_json import merge_json
from stages.report.merge_junit import merge_junit
from stages.report.merge_markdown import marker, merge_markdown
from stages.report.merge_report import MergeReport, headline
from stages.report.merge_table import merge_rows

FOLDER = "merge-gate"
REPORT, JSON, JUNIT = "report.md", "report.json", "junit.xml"
SUMMARY_KEY, TABLE_KEY = "merge-gate", "merge-gate-pairs"
_OUT = "out"


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """What to compare. `head` None is the project's folder as it is, or the end of the model
    repository's branch; `repository` empty is the project's own."""

    base: str
    head: str | None = None
    repository: str = ""
    jobs: int | None = None


@dataclass(frozen=True, slots=True)
class MergeGateResult:
    """The judged merge, its first line, and the folder of its reports. `results` is where head's
    packages and samples lie."""

    report: MergeReport
    headline: str
    markdown: str
    folder: Path
    results: Path

    @property
    def outcome(self) -> Outcome:
        """The worst of what blocks; PASSED where nothing does."""
        return self.report.judgement.outcome

    @property
    def marker(self) -> str:
        """The last line of the Markdown."""
        return marker(self.report.key)


def run_merge_gate(
    project: Project, request: MergeRequest, out: Path, terminal: Terminal
) -> MergeGateResult:
    """Runs the affected pairs of base and head, judges them, and writes `OUT/merge-gate/`.

    Raises:
        GitError: no such commit, or the two share no history.
        InputError: head's matrix can't be run at all, or the reports can't be written. A pair that
            fails is an answer, and a base that can't be run is a note.
    """
    require_writable(out / FOLDER)
    with _source(project, request, terminal) as source:
        report = compare(project, source, request.jobs, terminal)
    results = workspace_folder(project, HEAD) / RESULTS_FOLDER
    first, text = headline(report), merge_markdown(report)
    result = MergeGateResult(report, first, text, out / FOLDER, results)
    for name, text in (
        (REPORT, result.markdown),
        (JSON, merge_json(report)),
        (JUNIT, merge_junit(report)),
    ):
        write_beside(result.folder / name, text.encode())
    _publish(result)
    return result


@contextmanager
def _source(project: Project, request: MergeRequest, terminal: Terminal) -> Iterator[MergeSource]:
    if not request.repository:
        yield project_source(project, request.base, request.head)
        return
    from flows.merge_repository import repository_source

    with repository_source(
        project, request.repository, request.base, request.head, terminal.say
    ) as source:
        yield source


def _publish(result: MergeGateResult) -> None:
    """Artifacts on the flow's page. A server that went away takes nothing else with it."""
    try:
        create_markdown_artifact(result.markdown, key=SUMMARY_KEY, description=result.headline)
        shown = [p for p in result.report.judgement.pairs if p.verdict is not PairVerdict.UNCHANGED]
        if rows := merge_rows(shown):
            create_table_artifact(rows, key=TABLE_KEY, description="Changed pairs, worst first")
    except Exception as error:
        warn(f"warning: the merge gate's report isn't on the flow's page: {error}")


@dataclass(slots=True)
class _Call:
    """A command's call of the flow: where to write, how to speak, and the result."""

    out: Path
    terminal: Terminal
    result: MergeGateResult | None = None


_call: ContextVar[_Call | None] = ContextVar("call", default=None)


def call_merge_gate(
    project: Project, request: MergeRequest, out: Path, terminal: Terminal
) -> MergeGateResult:
    """`run_merge_gate` as a flow run, for a command.

    Raises:
        RecipeError: as `run_merge_gate`.
    """
    call = _Call(out, terminal)
    token = _call.set(call)
    try:
        with tags("merge gate", f"base {printable(request.base)}"):
            state = merge_gate(
                str(project.root),
                request.base,
                request.head,
                request.repository or None,
                request.jobs,
                return_state=True,
            )
        if call.result is None:
            state.result()  # raises what broke it
            raise AssertionError(f"no verdict, and no error: {state}")
    except Exception as error:
        if call.result is None:
            raise
        warn(f"warning: the flow server didn't take the end of the run: {error}")
    finally:
        _call.reset(token)
    return call.result


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
    call = _call.get() or _Call(own.root / _OUT, Terminal())
    request = MergeRequest(base, head, repository or "", jobs)
    call.result = result = run_merge_gate(own, request, call.out, call.terminal)
    said = printable(result.headline)
    get_run_logger().info("%s", said)
    if result.outcome is Outcome.PASSED:
        return Completed(message=said)
    return Failed(message=f"{said}; exit code {result.outcome.value}")
