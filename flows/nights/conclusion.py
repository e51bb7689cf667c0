"""From what a night measured to its place in the history, its comparison, and its summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flows.locks.file_lock import warn
from flows.nights.history import append_nights, history_file, read_history, write_summary
from flows.nights.rows import Night, night_rows, pairs_that_ran
from flows.project.params import NightlyParams
from flows.project.places import Project
from flows.steps.matrix_request import MatrixResult
from flows.terminal.outcomes import MEANINGS, worst
from stages.comparison.drift import Drift, compare_nights
from stages.comparison.nights import PairNight
from stages.errors import Outcome, RecipeError
from stages.report.night import NightHeading, night_headline, night_markdown


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
class Measured:
    """What ran: all pairs' rows, those that belong in the history, and what was left out."""

    night: Night
    outcome: Outcome
    pairs: int
    rows: Sequence[PairNight]
    new_rows: Sequence[PairNight]
    notes: tuple[str, ...] = ()


def measured_afresh(matrix: MatrixResult, night: Night) -> Measured:
    """A night in which everything was measured."""
    rows = night_rows(matrix, night)
    return Measured(night, matrix.outcome, len(rows), rows, rows)


def measured_stale(matrix: MatrixResult, night: Night) -> Measured:
    """A night in which only what was stale ran; no rows where nothing was."""
    ran = {(pair.model, pair.hardware) for pair in pairs_that_ran(matrix)}
    rows = night_rows(matrix, night) if ran else []
    new = [row for row in rows if row.pair in ran]
    return Measured(night, matrix.outcome, len(matrix.pairs()), rows, new)


def conclude(project: Project, params: NightlyParams, measured: Measured) -> NightResult:
    """Compares with the history and appends to it; a history that fails is a note, not the end."""
    night, path = measured.night, history_file(project.root)
    earlier: Sequence[PairNight] = ()
    appended, notes = 0, list(measured.notes)
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
    name = night.started.replace(":", "") if measured.rows else ""
    file = _write(project.root, name, summary)
    return NightResult(
        night, drift, headline, summary, file, appended, worst(outcomes), tuple(notes)
    )


def _readable(path: Path) -> tuple[PairNight, ...]:
    """The history where it can be read though it can't be written."""
    try:
        return read_history(path).rows
    except RecipeError:
        return ()


def _idle(measured: Measured) -> str:
    said = f"{measured.pairs} pairs: nothing was stale"
    if measured.outcome is Outcome.PASSED:
        return said
    return f"{said}, and still: {MEANINGS[measured.outcome]}"


def _write(root: Path, name: str, summary: str) -> Path | None:
    try:
        return write_summary(root, name, summary)
    except OSError as error:
        warn(f"warning: the night's summary can't be written: {error}")
        return None
