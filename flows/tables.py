"""The tables that commands print, and the run's results in Markdown for the flow's page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flows.board import Step, steps_of
from flows.outcomes import printable
from flows.requests import Pair
from flows.run_session import RunSession
from flows.stage_calls import StageFailure
from flows.terminal import Terminal
from flows.text_table import make_table, plain_cells
from stages.report.facts import PairFacts, gather_facts
from stages.report.markdown import StageRow, pair_markdown
from stages.report.words import summary_lines

if TYPE_CHECKING:
    from rich.table import Table

_NO_TIME = ""


def show_results(session: RunSession, terminal: Terminal) -> None:
    """One table for each pair, its summary below."""
    for pair in session.request.pairs():
        terminal.show(_pair_table(pair, stage_rows(session, pair)))
        for line in summary_lines(pair_facts(session, pair)):
            terminal.result(printable(f"  {line}"))
        terminal.result("")


def results_markdown(session: RunSession) -> str:
    """Every pair's table and summary."""
    return "\n".join(
        pair_markdown(
            pair.model, pair.hardware, stage_rows(session, pair), pair_facts(session, pair)
        )
        for pair in session.request.pairs()
    )


def pair_facts(session: RunSession, pair: Pair) -> PairFacts:
    """What the stages that gave a result in this run wrote."""
    places = session.request.places(pair)
    done = {step.stage.value for step in steps_of(pair) if session.board.result(step)}
    return gather_facts(places.folder, done)


def stage_rows(session: RunSession, pair: Pair) -> list[StageRow]:
    """A row for each of the six stages, whatever became of it."""
    return [_row(session, step) for step in steps_of(pair)]


def _row(session: RunSession, step: Step) -> StageRow:
    answer = session.board.answers.get(step)
    if answer is None:
        return StageRow(step.stage.value, "skipped", "", _NO_TIME)
    if isinstance(answer, StageFailure):
        return StageRow(
            step.stage.value, answer.outcome.name, answer.message.splitlines()[0], _NO_TIME
        )
    return StageRow(step.stage.value, answer.verdict, answer.figure, f"{answer.seconds:.1f}")


def _pair_table(pair: Pair, rows: Sequence[StageRow]) -> Table:
    table = make_table(printable(f"{pair.model} on {pair.hardware}"), "stage", "result", "figure")
    table.add_column("seconds", justify="right")
    for row in rows:
        table.add_row(*plain_cells(row.stage, row.result, row.figure, row.seconds))
    return table
