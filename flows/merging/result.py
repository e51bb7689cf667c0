"""A merge that was asked about, judged, and written down. Knows nothing of Prefect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flows.locks.file_lock import warn
from flows.merging.comparison import HEAD, compare
from flows.merging.source import MergeSource, project_source
from flows.project.files import write_beside
from flows.project.params import load_params
from flows.project.places import Project, require_writable
from flows.repositories.all_models import models_of_repositories
from flows.steps.matrix_request import RESULTS_FOLDER, MatrixRequest, MatrixResult, MatrixRunner
from flows.terminal.terminal import Terminal
from flows.workspaces.workspace import workspace_folder
from stages.errors import Outcome
from stages.report.merge_json import merge_json
from stages.report.merge_junit import merge_junit
from stages.report.merge_markdown import marker, merge_markdown
from stages.report.merge_report import MergeReport, headline

FOLDER = "merge-gate"
REPORT, JSON, JUNIT = "report.md", "report.json", "junit.xml"


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


class _EngineNeededError(Exception):
    """There is something to run."""


def judge_request(
    project: Project, request: MergeRequest, out: Path, terminal: Terminal, run: MatrixRunner
) -> MergeGateResult:
    """Runs the affected pairs of base and head with the engine, judges them, and writes
    `OUT/merge-gate/`.

    Raises:
        GitError: no such commit, or the two share no history.
        InputError: head's matrix can't be run at all, or the reports can't be written. A pair that
            fails is an answer, and a base that can't be run is a note.
    """
    folder = out / FOLDER
    require_writable(folder)
    with _source(project, request) as source:
        report = compare(project, source, request.jobs, terminal, run)
    markdown = merge_markdown(report)
    for name, text in (
        (REPORT, markdown),
        (JSON, merge_json(report)),
        (JUNIT, merge_junit(report)),
    ):
        write_beside(folder / name, text.encode())
    results = workspace_folder(project, HEAD) / RESULTS_FOLDER
    return MergeGateResult(report, headline(report), markdown, folder, results)


def judge_idle(project: Project, request: MergeRequest, out: Path) -> MergeGateResult | None:
    """The result where a merge affects no pair, without the engine; else None.

    Raises:
        RecipeError: as `judge_request`.
    """

    def needed(_request: MatrixRequest, _terminal: Terminal) -> MatrixResult:
        raise _EngineNeededError

    try:
        return judge_request(project, request, out, Terminal(quiet=True), needed)
    except _EngineNeededError:
        return None


@contextmanager
def _source(project: Project, request: MergeRequest) -> Iterator[MergeSource]:
    if not request.repository:
        own = load_params(project.params).matrix.models
        with models_of_repositories(project, own, warn) as others:
            yield project_source(project, request.base, request.head, others)
        return
    from flows.merging.merge_repository import repository_source

    with repository_source(project, request.repository, request.base, request.head, warn) as source:
        yield source
