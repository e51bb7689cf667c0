"""What a run prints at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.project.requests import Pair
from flows.running.results import pair_facts, stage_rows
from flows.running.run_session import RunSession
from flows.steps.board import steps_of
from flows.terminal.outcomes import printable
from flows.terminal.terminal import Terminal
from flows.terminal.text_table import make_table, plain_cells
from stages.report.words import summary_lines

if TYPE_CHECKING:
    from rich.table import Table


def show_results(session: RunSession, terminal: Terminal) -> None:
    """One table for each pair; below it the summary, and where the files lie."""
    for pair in session.request.pairs():
        terminal.show(_pair_table(session, pair))
        folder = session.request.places(pair).folder
        where = f"package and reports: {folder}" if folder.is_dir() else "nothing was written"
        for line in (*summary_lines(pair_facts(session, pair)), where):
            terminal.result(printable(f"  {line}"))
        terminal.result("")


def _pair_table(session: RunSession, pair: Pair) -> Table:
    table = make_table(printable(f"{pair.model} on {pair.hardware}"), "stage", "result", "figure")
    table.add_column("seconds", justify="right")
    for step, row in zip(steps_of(pair), stage_rows(session, pair), strict=True):
        result = session.board.result(step)
        seconds = f"{result.seconds:.1f}" if result else ""
        table.add_row(*plain_cells(row.stage, row.result, row.figure, seconds))
    return table
