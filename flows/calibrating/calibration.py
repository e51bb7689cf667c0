"""`recipe calibrate`: from files to an overlay, and a table of what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flows.calibrating.plan_source import PlanSource, Say
from flows.project.files import write_beside
from flows.project.places import Project
from flows.terminal.text_table import make_table, plain_cells
from stages.calibration.calibrate import Calibration, calibrate
from stages.calibration.figures import rounded
from stages.calibration.fit import Estimate, FitOptions
from stages.calibration.measurements import Use, read_measurements
from stages.calibration.overlay import overlay_text
from stages.calibration.parameters import choose_parameters
from stages.calibration.predict import Tuner, read_base
from stages.errors import InputError
from stages.hardware.document import read_document
from stages.units import format_ns

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class CalibrationRequest:
    """What to fit (no names: the spec's usual ones), to which file, and how."""

    spec: Path
    measurements: Path
    names: Sequence[str]
    options: FitOptions
    rounds: int
    jobs: int


def calibrate_files(request: CalibrationRequest, project: Project, say: Say) -> Calibration:
    """Read, compile, fit, judge.

    Raises:
        RecipeError: the spec, the measurements or a model is wrong, or too few rows are there.
    """
    document = read_base(request.spec)
    measurements = read_measurements(request.measurements)
    parameters = choose_parameters(document, request.names)
    source = PlanSource(project, measurements, request.jobs, say)
    tuner = Tuner(document, parameters)
    return calibrate(tuner, measurements, source.plan_of, request.options, request.rounds, say)


def require_replaceable(path: Path) -> None:
    """Nobody's review is thrown away.

    Raises:
        InputError: an overlay that a person has reviewed stands where one would be written.
    """
    if path.is_file() and read_document(path).data.get("reviewed") is True:
        raise InputError(
            "a reviewed overlay stands there already",
            where=str(path),
            hint="give another file with `--out`, or remove this one",
        )


def write_overlay(calibration: Calibration, path: Path) -> None:
    """Writes the overlay, whole or not at all."""
    write_beside(path, overlay_text(calibration).encode())


def parameter_table(calibration: Calibration) -> Table:
    """One row a fitted parameter."""
    table = make_table("Parameters", "name", "was", "fitted", "95 % interval", "warning")
    for estimate in calibration.fit.estimates:
        parameter = estimate.parameter
        table.add_row(
            *plain_cells(
                parameter.name,
                parameter.text(parameter.own),
                parameter.text(estimate.value),
                interval_text(estimate),
                "; ".join(estimate.warnings),
            )
        )
    return table


def interval_text(estimate: Estimate) -> str:
    """Both ends of an interval, to three digits."""
    parameter = estimate.parameter
    ends = [
        max(parameter.low, estimate.interval.low),
        min(parameter.high, estimate.interval.high),
    ]
    return " to ".join(parameter.text(rounded(end)) for end in ends)


def row_table(calibration: Calibration) -> Table:
    """One row a measurement, in the file's order."""
    table = make_table(
        "Rows", "model", "precision", "used to", "measured", "before", "fitted", "error"
    )
    for item in calibration.rows:
        table.add_row(
            *plain_cells(
                item.row.model,
                str(item.row.precision),
                str(item.row.use),
                format_ns(round(item.row.latency_ns)),
                format_ns(item.before_ns),
                format_ns(item.predicted_ns),
                f"{100 * item.error:+.1f} %",
            )
        )
    return table


def error_table(calibration: Calibration) -> Table:
    """The errors of the spec as it was and as fitted, on the rows fitted and those held out."""
    table = make_table("Errors", "rows", "count", "spec", "mean", "largest", "Spearman")
    for label, use in (("fitted", Use.FIT), ("held out", Use.JUDGE), ("all", None)):
        for spec, before in (("before", True), ("fitted", False)):
            figures = calibration.figures(use, before=before)
            assert figures is not None
            rank = "" if figures.spearman is None else f"{figures.spearman:.3f}"
            cells = (f"{100 * figures.mape:.1f} %", f"{100 * figures.largest:.1f} %", rank)
            table.add_row(*plain_cells(label, str(figures.count), spec, *cells))
    return table
