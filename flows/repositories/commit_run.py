"""Runs the pairs that a commit of a model repository affects, and keeps what came of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

from flows.git.command import SHORT
from flows.locks.file_lock import file_lock
from flows.nights.rows import Night, bare_row, night_rows, project_commit
from flows.project.params import HARDWARE_KEY, MODELS_KEY, load_params
from flows.project.places import Project
from flows.project.requests import Pair
from flows.repositories.commit_plan import (
    RETRIED,
    CommitPlan,
    CommitRequest,
    plan_commit,
    still_failing,
)
from flows.repositories.commit_results import (
    CommitResult,
    CommitRow,
    headline_of,
    report_of,
    worst_first,
    write_results,
)
from flows.repositories.model_changes import last_change
from flows.repositories.model_placing import place_models
from flows.repositories.model_repository import find_repository
from flows.repositories.processed import BranchRecord, Failing, record_processed
from flows.steps.matrix_request import MatrixRequest, MatrixRunner
from flows.terminal.terminal import Terminal
from flows.workspaces.overlay import Overlay
from flows.workspaces.workspace import open_workspace
from stages.comparison.nights import SKIPPED, PairNight
from stages.comparison.stage_names import STAGES
from stages.errors import InputError, Outcome


def process_commit(
    project: Project, request: CommitRequest, terminal: Terminal, run: MatrixRunner
) -> CommitResult:
    """Runs what a range of commits affects; `run` is the engine.

    Results are written to `history/commits/REPOSITORY/COMMIT/` first; only then is the commit
    recorded as processed. Where this is killed before, the next run does it again, from the cache.
    Two at once on one repository come one after the other.

    Raises:
        GitError: the repository can't be fetched, or has no such branch or commit.
        InputError: a configuration is wrong, or a file can't be written.
        HardwareSpecError: no such device.
    """
    with _alone(project, request, terminal):
        plan, rows = _run(project, plan_commit(project, request, terminal.say), request.jobs,
                          terminal, run)  # fmt: skip
        return _keep(project, plan, rows)


def process_idle(
    project: Project, request: CommitRequest, terminal: Terminal
) -> CommitResult | None:
    """The result where a range of commits affects no pair, without the engine; else None.

    Raises:
        RecipeError: as `process_commit`.
    """
    with _alone(project, request, terminal):
        plan = plan_commit(project, request, terminal.say)
        return None if plan.pairs else _keep(project, plan, ())


@contextmanager
def _alone(project: Project, request: CommitRequest, terminal: Terminal) -> Iterator[None]:
    name = find_repository(project, request.repository).name
    lock = project.cache.absolute() / "repositories" / f"{name}.commit.lock"
    with file_lock(lock, f"the commits of {name!r}", terminal.say):
        yield


def _keep(project: Project, plan: CommitPlan, rows: tuple[CommitRow, ...]) -> CommitResult:
    """Writes what came of it, then records the commit as processed."""
    failing = still_failing(plan)
    headline = headline_of(plan, rows)
    report = report_of(plan, rows, failing, headline)
    touched = bool(rows or plan.changes.deleted)
    folder = write_results(project, plan, rows, failing, report) if touched else None
    recorded = plan.advances and all(row.outcome is not Outcome.INTERRUPTED for row in rows)
    if recorded:
        record = _record(plan, rows, failing)
        if record != plan.before:
            record_processed(project, plan.config.name, plan.config.branch, record)
    return CommitResult(plan, rows, failing, headline, report, folder, recorded)


def _run(
    project: Project, plan: CommitPlan, jobs: int | None, terminal: Terminal, run: MatrixRunner
) -> tuple[CommitPlan, tuple[CommitRow, ...]]:
    """Places the models and runs their pairs. Gives the plan without pairs whose files couldn't be
    had before, and still can't: they keep failing, and are no news."""
    name, models = plan.config.name, plan.changes.models
    wanted = sorted({pair.model for pair in plan.pairs})
    home = plan.mirror.home / f"{name}.commit"
    placed, failed = place_models(plan.mirror, [models[model] for model in wanted], home)
    pairs = {
        pair: change
        for pair, change in plan.pairs.items()
        if pair.model in placed or change != RETRIED
    }
    plan = replace(plan, pairs=pairs)
    night = Night("", "", load_params(project.params).benchmark.seed, project_commit(project))
    rows = [
        _defect_row(plan, pair, night, failed[pair.model]) for pair in pairs if pair.model in failed
    ]
    runnable = frozenset(pair for pair in pairs if pair.model in placed)
    if runnable:
        rows += _measure(project, plan, runnable, placed, night, jobs, terminal, run)
    return plan, worst_first(rows)


def _measure(
    project: Project,
    plan: CommitPlan,
    pairs: frozenset[Pair],
    placed: Mapping[str, Path],
    night: Night,
    jobs: int | None,
    terminal: Terminal,
    run: MatrixRunner,
) -> list[CommitRow]:
    """Runs the pairs in a workspace whose matrix holds just their models."""
    name = plan.config.name
    overlay = Overlay(
        params={MODELS_KEY: sorted(placed), HARDWARE_KEY: list(plan.hardware)},
        models=placed,
        baselines={new: old for new, old in plan.changes.renamed.items() if new in placed},
    )
    tags = ("commit", name, f"commit {plan.changes.until[:SHORT]}")
    with open_workspace(project, f"commit-{name}", None, overlay, terminal.say) as folder:
        result = run(MatrixRequest(folder, pairs, jobs=jobs, tags=tags), terminal)
        measured = night_rows(result, night)
    return [_row(plan, Pair(*row.pair), row) for row in measured]


def _row(plan: CommitPlan, pair: Pair, measured: PairNight, by_defect: bool = False) -> CommitRow:
    changes = plan.changes
    model = changes.models[pair.model]
    change = plan.pairs[pair]
    touched_in = last_change(plan.mirror, changes.since, changes.until, model)
    return CommitRow(changes.until, change, touched_in, model.path, measured, by_defect)


def _defect_row(plan: CommitPlan, pair: Pair, night: Night, error: InputError) -> CommitRow:
    """The row of a model whose files can't be had: its first stage has nothing to read."""
    verdicts = (error.outcome.name, *(SKIPPED for _ in STAGES[1:]))
    reason = f"{error.problem} ({error.where})" if error.where else error.problem
    measured = replace(bare_row(pair, night, error.outcome, verdicts), reason=reason)
    return _row(plan, pair, measured, by_defect=True)


def _record(
    plan: CommitPlan, rows: tuple[CommitRow, ...], failing: Mapping[Pair, Failing]
) -> BranchRecord:
    """How far the branch is processed now; see `flows.repositories.processed` for what fails."""
    kept = {pair: known for pair, known in failing.items() if pair.hardware in plan.hardware}
    for row in rows:
        if row.outcome is not Outcome.PASSED:
            kept[row.pair] = _failing(plan, row)
    by_model: dict[str, dict[str, Failing]] = {}
    for pair, known in sorted(kept.items(), key=itemgetter(0)):
        by_model.setdefault(pair.model, {})[pair.hardware] = known
    models = {name: model.fingerprint for name, model in plan.changes.models.items()}
    return BranchRecord(commit=plan.changes.until, models=models, failing=by_model)


def _failing(plan: CommitPlan, row: CommitRow) -> Failing:
    fresh = Failing(since=row.changed_in, outcome=row.outcome.value, by_defect=row.by_defect)
    if row.change != RETRIED or plan.before is None:
        return fresh
    known = plan.before.failing[row.pair.model][row.pair.hardware]
    attempts = known.attempts + (not row.by_defect)
    return fresh.model_copy(update={"since": known.since, "attempts": attempts})
