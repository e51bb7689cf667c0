"""`recipe flow commit`: what a range of commits of a model repository changes is run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flows.arguments import Jobs, Quiet
from flows.project.context import options
from flows.terminal.terminal import Terminal

if TYPE_CHECKING:
    from flows.project.places import Project
    from flows.repositories.commit_plan import CommitRequest
    from flows.repositories.commit_results import CommitResult


def commit(
    context: typer.Context,
    repository: Annotated[
        str, typer.Argument(metavar="REPOSITORY", help="A name in models/repositories.yaml.")
    ],
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="REV", help="Else the last commit that was processed."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="REV", help="Else the head of the branch.")
    ] = None,
    hardware: Annotated[
        list[str] | None,
        typer.Option(
            "--hardware",
            metavar="NAME",
            help="A device that `recipe hardware list` prints; give it once for each. Else the "
            "repository's, or those of the matrix.",
        ),
    ] = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Run the models that commits of a model repository changed, added or renamed."""
    from flows.repositories.commit_plan import CommitRequest
    from flows.repositories.commit_run import process_idle

    terminal = options(context).terminal_with(quiet)
    project = options(context).project
    request = CommitRequest(repository, since, until, tuple(hardware or ()), jobs)
    result = process_idle(project, request, terminal) or _run(project, request, terminal)
    _show(result, terminal)
    raise typer.Exit(int(result.outcome))


def _run(project: Project, request: CommitRequest, terminal: Terminal) -> CommitResult:
    from flows.running.engine import flow_engine

    with flow_engine(project):
        from flows.commit import call_commit

        return call_commit(project, request, terminal)


def _show(result: CommitResult, terminal: Terminal) -> None:
    """A row for each pair, worst first; the headline, and where the report lies."""
    from flows.git.command import SHORT
    from flows.repositories.commit_results import REPORT_FILE
    from flows.terminal.outcomes import printable
    from flows.terminal.text_table import make_table, plain_cells
    from stages.comparison.nights import Figure
    from stages.report.night import value_text

    if result.rows:
        shown = (Figure.P50, Figure.P99, Figure.TAIL, Figure.FALLBACKS)
        heads = (
            "model",
            "device",
            "change",
            "commit",
            "result",
            *(figure.value for figure in shown),
        )
        table = make_table(f"{result.plan.config.name} at {result.plan.changes.until}", *heads)
        for row in result.rows:
            figures = (value_text(figure, row.measured.value(figure)) for figure in shown)
            names = (row.pair.model, row.pair.hardware, row.change, row.changed_in[:SHORT])
            table.add_row(*plain_cells(*names, row.outcome.name, *figures))
        terminal.show(table)
    terminal.result(printable(result.headline))
    for pair, known in result.still_failing.items():
        text = f"  {pair.model} on {pair.hardware} still fails since {known.since[:SHORT]}"
        terminal.result(printable(text))
    for remark in result.plan.remarks:
        terminal.result(printable(f"  {remark}"))
    if result.folder is not None:
        terminal.result(f"  report: {result.folder / REPORT_FILE}")
