"""`recipe flow nightly`: every model on every device with fresh seeds, and what moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flows.arguments import Jobs, Quiet
from flows.nights.night_request import NightRequest
from flows.project.context import options
from flows.terminal.terminal import Terminal
from stages.errors import InputError

if TYPE_CHECKING:
    from flows.nights.conclusion import NightResult
    from flows.project.places import Project


def nightly(
    context: typer.Context,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Of the measured stages; else the date, as YYYYMMDD."),
    ] = None,
    only_stale: Annotated[
        bool,
        typer.Option(
            "--only-stale",
            help="Bring this checkout up to date instead, with the seeds that it has.",
        ),
    ] = False,
    jobs: Jobs = None,
    shards: Annotated[
        int | None,
        typer.Option("--shards", min=1, help="Parts that the workers of --work-pool take."),
    ] = None,
    work_pool: Annotated[
        str, typer.Option("--work-pool", help="A Prefect work pool: see docs/workers.md.")
    ] = "",
    quiet: Quiet = False,
) -> None:
    """Run the whole matrix with fresh seeds; append it to the history; say what moved."""
    from flows.workers.shard_parameters import crew_of

    if only_stale and seed is not None:
        raise InputError(
            "--only-stale runs with the seeds of params.yaml, not with another",
            where=f"--seed {seed}",
            hint="leave one of the two out",
        )
    crew = crew_of(shards, work_pool)
    if only_stale and crew is not None:
        raise InputError(
            "--only-stale brings this checkout up to date, on this machine",
            where=f"--shards {crew.shards}",
            hint="leave one of the two out",
        )
    terminal = options(context).terminal_with(quiet)
    project = options(context).project
    request = NightRequest(seed, only_stale, jobs, shards, work_pool)
    result = _idle(project) if only_stale else None
    result = result or _run(project, request, terminal)
    _show(result, terminal)
    raise typer.Exit(int(result.outcome))


def _idle(project: Project) -> NightResult | None:
    """The result where nothing is stale, which needs no flow engine."""
    from flows.nights.idle_night import idle_night

    return idle_night(project)


def _run(project: Project, request: NightRequest, terminal: Terminal) -> NightResult:
    from flows.running.engine import flow_engine

    with flow_engine(project):
        from flows.nightly import call_nightly

        return call_nightly(project, request, terminal)


def _show(result: NightResult, terminal: Terminal) -> None:
    """What isn't as it was, worst first, and the headline."""
    from flows.terminal.outcomes import printable
    from flows.terminal.text_table import make_table, plain_cells
    from stages.report.night import night_table

    rows = [row for row in night_table(result.drift) if row["standing"] not in _QUIET]
    if rows:
        table = make_table(f"Night {result.night.date}", "pair", "standing", "what")
        for row in rows:
            table.add_row(*plain_cells(row["pair"], row["standing"], row["what"]))
        terminal.show(table)
    terminal.result(printable(result.headline))
    for note in result.notes:
        terminal.result(printable(f"  {note}"))
    if result.file is not None:
        terminal.result(f"  summary: {result.file}")


_QUIET = frozenset({"unchanged", "new"})
