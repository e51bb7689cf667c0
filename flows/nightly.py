"""Every night: the whole matrix with fresh seeds, into the history, and what moved.

Importing this module imports Prefect.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from flows.file_lock import warn
from flows.history import append_nights, history_file, read_history, write_summary
from flows.matrix import run_matrix
from flows.matrix_request import MatrixRequest
from flows.night_rows import Night, begin_night, night_rows, pairs_that_ran, project_commit
from flows.outcomes import MEANINGS, printable, worst
from flows.overlay import Overlay
from flows.params import NightlyParams, load_params
from flows.places import Project
from flows.stage_calls import Stage
from flows.terminal import Terminal
from flows.workspace import open_workspace
from stages.errors import Outcome, RecipeError
from stages.evaluation.drift import Drift, compare_nights
from stages.evaluation.nights import PairNight
from stages.report.night import NightHeading, night_headline, night_markdown, night_table

WORKSPACE = "nightly"
SUMMARY_KEY, TABLE_KEY = "nightly-summary", "nightly-pairs"
_MEASURED = frozenset({Stage.BENCHMARK, Stage.THERMAL_STRESS})


@dataclass(frozen=True, slots=True)
class NightResult:
    """What came of a night.

    `outcome` is the worst of all pairs, or that of the history where it couldn't be kept.
    `summary` is Markdown; `file` is where it lies, None where it couldn't be written. `appended`
    counts rows.
    """

    night: Night
    drift: Drift
    headline: str
    summary: str
    file: Path | None
    appended: int
    outcome: Outcome
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Measured:
    """What ran: all pairs' rows, and those that belong in the history."""

    night: Night
    outcome: Outcome
    pairs: int
    rows: Sequence[PairNight]
    new_rows: Sequence[PairNight]


def run_nightly(
    project: Project, seed: int | None, only_stale: bool, jobs: int | None, terminal: Terminal
) -> NightResult:
    """Runs a night, appends it to the history, and leaves its summary as files and artifacts.

    `only_stale` brings the project's own checkout up to date, with the seeds that it has.

    Raises:
        RecipeError: the matrix couldn't be run at all. A pair that is broken is a row.
    """
    now = datetime.now().astimezone()
    params = load_params(project.params)
    commit = project_commit(project)
    if only_stale:
        night = begin_night(now, params.benchmark.seed, commit)
        measured = _run_stale(project, night, jobs, terminal)
    else:
        night = begin_night(now, seed, commit)
        measured = _run_afresh(project, night, jobs, terminal)
    result = _conclude(project, params.nightly, measured)
    _publish(result)
    return result


def _run_afresh(project: Project, night: Night, jobs: int | None, terminal: Terminal) -> _Measured:
    """Runs the matrix beside the user's checkout, which keeps its seeds and its results."""
    seeds = {"benchmark.seed": night.seed, "thermal_stress.seed": night.seed}
    with open_workspace(project, WORKSPACE, None, Overlay(params=seeds), terminal.say) as root:
        request = MatrixRequest(root, forced=_MEASURED, jobs=jobs, tags=_tags(night))
        matrix = run_matrix(request, terminal)
        rows = night_rows(matrix, night)
        return _Measured(night, matrix.outcome, len(rows), rows, rows)


def _run_stale(project: Project, night: Night, jobs: int | None, terminal: Terminal) -> _Measured:
    matrix = run_matrix(MatrixRequest(project.root, jobs=jobs, tags=_tags(night)), terminal)
    ran = {(pair.model, pair.hardware) for pair in pairs_that_ran(matrix)}
    rows = night_rows(matrix, night) if ran else []
    fresh = [row for row in rows if row.pair in ran]
    return _Measured(night, matrix.outcome, len(matrix.pairs()), rows, fresh)


def _tags(night: Night) -> tuple[str, ...]:
    return ("nightly", f"night {night.date}")


def _conclude(project: Project, params: NightlyParams, measured: _Measured) -> NightResult:
    """Compares with the history and appends to it; a history that fails is a note, not the end."""
    night, path = measured.night, history_file(project.root)
    earlier: Sequence[PairNight] = ()
    appended, notes = 0, []
    outcomes = [measured.outcome, *(row.outcome for row in measured.rows)]
    if measured.new_rows:
        try:
            history = append_nights(path, measured.new_rows)
            earlier, appended = history.rows, len(measured.new_rows)
            notes += [history.mended] if history.mended else []
        except RecipeError as error:
            notes.append(str(error).replace("\n", "; "))
            outcomes.append(error.outcome)
            earlier = _readable(path)
    drift = compare_nights(measured.rows, earlier, params.bands(), params.median_nights)
    headline = night_headline(drift) if measured.rows else _idle(measured)
    earlier_nights = len({row.started for row in earlier})
    heading = NightHeading(night.date, night.seed, night.commit, earlier_nights, tuple(notes))
    summary = night_markdown(headline, heading, drift)
    file = _write(project.root, night, summary)
    return NightResult(
        night, drift, headline, summary, file, appended, worst(outcomes), tuple(notes)
    )


def _readable(path: Path) -> tuple[PairNight, ...]:
    """The history where it can be read though it can't be written."""
    try:
        return read_history(path).rows
    except RecipeError:
        return ()


def _idle(measured: _Measured) -> str:
    said = f"{measured.pairs} pairs: nothing was stale"
    if measured.outcome is Outcome.PASSED:
        return said
    return f"{said}, and still: {MEANINGS[measured.outcome]}"


def _write(root: Path, night: Night, summary: str) -> Path | None:
    try:
        return write_summary(root, night.started.replace(":", ""), summary)
    except OSError as error:
        warn(f"warning: the night's summary can't be written: {error}")
        return None


def _publish(result: NightResult) -> None:
    """Artifacts on the flow's page. A server that went away takes nothing else with it."""
    try:
        create_markdown_artifact(result.summary, key=SUMMARY_KEY, description=result.headline)
        if table := night_table(result.drift):
            create_table_artifact(table, key=TABLE_KEY, description="Every pair, worst first")
    except Exception as error:
        warn(f"warning: the night's summary isn't on the flow's page: {error}")


@dataclass(slots=True)
class _Call:
    """A command's call of the flow: how to speak, and the result, which no state carries."""

    terminal: Terminal
    result: NightResult | None = None


_call: ContextVar[_Call | None] = ContextVar("call", default=None)


def call_nightly(
    project: Project, seed: int | None, only_stale: bool, jobs: int | None, terminal: Terminal
) -> NightResult:
    """`run_nightly` as a flow run, for a command.

    Raises:
        RecipeError: as `run_nightly`.
    """
    call = _Call(terminal)
    token = _call.set(call)
    try:
        state = nightly(str(project.root), seed, only_stale, jobs, return_state=True)
        if call.result is None:
            state.result()  # raises what broke it
            raise AssertionError(f"no night, and no error: {state}")
    except Exception as error:
        if call.result is None:
            raise
        warn(f"warning: the flow server didn't take the end of the run: {error}")
    finally:
        _call.reset(token)
    return call.result


def _flow_run_name() -> str:
    given = flow_run.parameters
    if given["only_stale"]:
        return "only what is stale"
    seed = given["seed"]
    night = f"night {datetime.now().astimezone():%Y-%m-%d}"
    return night if seed is None else f"{night}, seed {seed}"


@flow(name="nightly", flow_run_name=_flow_run_name)
def nightly(
    project: str, seed: int | None = None, only_stale: bool = False, jobs: int | None = None
) -> State[Any]:
    """The whole matrix with fresh seeds, appended to the history, and what moved, worst first.

    `project` is the folder that holds params.yaml. `seed` is the date as YYYYMMDD unless given.
    `only_stale` brings the project's own checkout up to date instead.
    """
    call = _call.get() or _Call(Terminal())
    call.result = result = run_nightly(
        Project(Path(project)), seed, only_stale, jobs, call.terminal
    )
    get_run_logger().info("%s", printable(result.headline))
    if result.outcome is Outcome.PASSED:
        return Completed(message=result.headline)
    return Failed(message=f"{result.headline}; exit code {result.outcome.value}")
