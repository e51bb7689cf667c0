"""Every night: the whole matrix with fresh seeds, into the history, and what moved.

Importing this module imports Prefect.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime
from typing import Any

from prefect import flow, get_run_logger, tags
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from flows.matrix import run_matrix
from flows.nights.conclusion import (
    Measured,
    NightResult,
    conclude,
    measured_afresh,
    measured_stale,
)
from flows.nights.night_request import NightRequest
from flows.nights.rows import Night, begin_night, project_commit
from flows.project.params import HARDWARE_KEY, MODELS_KEY, MatrixParams, load_params
from flows.project.places import Project, project_at
from flows.repositories.all_models import models_of_repositories
from flows.running.flow_call import FlowCall, FlowCalls, headline_state, publishing
from flows.steps.matrix_request import MatrixRequest
from flows.steps.stage_calls import Stage
from flows.terminal.outcomes import printable
from flows.terminal.terminal import Terminal
from flows.workers.on_workers import run_on_pool
from flows.workers.shard_parameters import Crew, crew_of
from flows.workspaces.overlay import Overlay
from flows.workspaces.workspace import open_workspace
from stages.report.night import night_table

WORKSPACE = "nightly"
SUMMARY_KEY, TABLE_KEY = "nightly-summary", "nightly-pairs"
_MEASURED = frozenset({Stage.BENCHMARK, Stage.THERMAL_STRESS})
_calls: FlowCalls[Terminal, NightResult] = FlowCalls("nightly")


def run_nightly(project: Project, request: NightRequest, terminal: Terminal) -> NightResult:
    """Runs a night, appends it to the history, and leaves its summary as files and artifacts.

    Raises:
        RecipeError: the matrix couldn't be run at all. A pair that is broken is a row.
    """
    crew = crew_of(request.shards, request.work_pool)
    now = datetime.now().astimezone()
    params = load_params(project.params)
    commit = project_commit(project)
    if request.only_stale:
        night = begin_night(now, params.benchmark.seed, commit)
        measured = _run_stale(project, night, request.jobs, terminal)
    else:
        night = begin_night(now, request.seed, commit)
        measured = _run_afresh(project, params.matrix, night, request.jobs, terminal, crew)
    result = conclude(project, params.nightly, measured)
    _publish(result)
    return result


def _run_afresh(
    project: Project,
    own: MatrixParams,
    night: Night,
    jobs: int | None,
    terminal: Terminal,
    crew: Crew | None,
) -> Measured:
    """Runs the matrix beside the user's checkout, which keeps its seeds and its results; with it
    the models of all model repositories, unless a crew runs it, which doesn't have their files."""
    seeds = {"benchmark.seed": night.seed, "thermal_stress.seed": night.seed}
    if crew is not None:
        with open_workspace(project, WORKSPACE, None, Overlay(params=seeds), terminal.say) as root:
            request = MatrixRequest(root, forced=_MEASURED, jobs=jobs, tags=_tags(night))
            return measured_afresh(run_on_pool(crew, project, request, seeds, terminal), night)
    with models_of_repositories(project, own.models, terminal.say) as found:
        overlay, pairs = Overlay(params=seeds), None
        if found.folders:
            models, devices = found.names(own.models), found.devices(own.hardware)
            wider = {MODELS_KEY: models, HARDWARE_KEY: devices}
            overlay = Overlay(params={**seeds, **wider}, models=found.folders)
            pairs = found.pairs(own.models, own.hardware)
        with open_workspace(project, WORKSPACE, None, overlay, terminal.say) as root:
            request = MatrixRequest(root, pairs, _MEASURED, jobs, _tags(night))
            measured = measured_afresh(run_matrix(request, terminal), night)
    return replace(measured, notes=tuple(found.remarks))


def _run_stale(project: Project, night: Night, jobs: int | None, terminal: Terminal) -> Measured:
    request = MatrixRequest(project.root, jobs=jobs, tags=_tags(night))
    return measured_stale(run_matrix(request, terminal), night)


def _tags(night: Night) -> tuple[str, ...]:
    return ("nightly", f"night {night.date}")


def _publish(result: NightResult) -> None:
    with publishing("the night's summary"):
        said = f"Night {result.night.date}: what moved, worst first"
        create_markdown_artifact(result.summary, key=SUMMARY_KEY, description=said)
        if table := night_table(result.drift):
            create_table_artifact(table, key=TABLE_KEY, description="Every pair, worst first")


def call_nightly(project: Project, request: NightRequest, terminal: Terminal) -> NightResult:
    """`run_nightly` as a flow run, for a command.

    Raises:
        RecipeError: as `run_nightly`.
    """

    def start() -> State[Any]:
        with tags("nightly"):
            return nightly(
                str(project.root),
                request.seed,
                request.only_stale,
                request.jobs,
                request.shards,
                request.work_pool,
                return_state=True,
            )

    return _calls.make(terminal, start)


def _log(result: NightResult) -> None:
    """What isn't as it was, in the flow's log: a reader of the page needn't open the artifact."""
    logger = get_run_logger()
    for row in night_table(result.drift):
        level = _LEVELS.get(row["standing"], logging.DEBUG)
        logger.log(level, "%s", printable(f"{row['standing']}: {row['pair']}  {row['what']}"))
    logger.info("%s", printable(result.headline))


_LEVELS = {
    "broken": logging.ERROR,
    "worse": logging.WARNING,
    "better": logging.INFO,
    "mended": logging.INFO,
    "back to usual": logging.INFO,
}


def _flow_run_name() -> str:
    given = flow_run.parameters
    if given["only_stale"]:
        return "only what is stale"
    seed = given["seed"]
    night = f"night {datetime.now().astimezone():%Y-%m-%d}"
    return night if seed is None else f"{night}, seed {seed}"


@flow(name="nightly", flow_run_name=_flow_run_name)
def nightly(
    project: str = "",
    seed: int | None = None,
    only_stale: bool = False,
    jobs: int | None = None,
    shards: int | None = None,
    work_pool: str = "",
) -> State[Any]:
    """The whole matrix with fresh seeds, appended to the history, and what moved, worst first.

    `project` is the folder that holds params.yaml; empty means this worker's own. `seed` is
    the date as YYYYMMDD unless given. `only_stale` brings the project's own checkout up to date
    instead. `shards` and `work_pool` let the workers of a pool run the stages: docs/workers.md.
    """
    call = _calls.current() or FlowCall(Terminal())
    request = NightRequest(seed, only_stale, jobs, shards, work_pool)
    call.result = result = run_nightly(project_at(project), request, call.given)
    _log(result)
    return headline_state(result.outcome, result.headline)
