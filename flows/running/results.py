"""What came of a run, pair by pair: rows, facts, and reports in Markdown."""

from __future__ import annotations

from flows.project.files import write_beside
from flows.project.requests import Pair
from flows.running.run_session import RunSession
from flows.steps.board import Step, steps_of
from flows.steps.stage_calls import StageFailure, StageResult
from stages.report.facts import PairFacts, gather_facts
from stages.report.markdown import StageRow, pair_markdown


def pair_facts(session: RunSession, pair: Pair) -> PairFacts:
    """What the stages that gave a result in this run wrote."""
    done = {step.stage.value for step in steps_of(pair) if session.board.result(step)}
    return gather_facts(session.request.places(pair).folder, done)


def stage_rows(session: RunSession, pair: Pair) -> list[StageRow]:
    """A row for each of the six stages, whatever became of it."""
    return [_row(session, step) for step in steps_of(pair)]


def _row(session: RunSession, step: Step) -> StageRow:
    answer = session.board.answers.get(step)
    if isinstance(answer, StageResult):
        return StageRow(step.stage.value, answer.verdict, answer.figure)
    if isinstance(answer, StageFailure):
        return StageRow(step.stage.value, answer.outcome.name, answer.message.splitlines()[0])
    return StageRow(step.stage.value, "skipped", "")


def pair_report(session: RunSession, pair: Pair) -> str:
    """A pair's table and summary in Markdown."""
    rows, facts = stage_rows(session, pair), pair_facts(session, pair)
    return pair_markdown(pair.model, pair.hardware, rows, facts)


def results_markdown(session: RunSession) -> str:
    """Every pair's table and summary."""
    return "\n".join(pair_report(session, pair) for pair in session.request.pairs())


def write_reports(session: RunSession) -> None:
    """report.md of every pair that has a folder, so that something was written for it."""
    for pair in session.request.pairs():
        places = session.request.places(pair)
        if places.folder.is_dir():
            write_beside(places.report, pair_report(session, pair).encode())
