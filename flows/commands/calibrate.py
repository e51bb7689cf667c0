"""`recipe calibrate`: fit a spec to measured latencies; write an overlay to review."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.project.context import options
from flows.project.cores import usable_cores


def calibrate(
    context: typer.Context,
    hardware: Annotated[
        str,
        typer.Argument(
            metavar="HARDWARE",
            help="A device: a name that `recipe hardware list` prints, or the path of a spec.",
        ),
    ],
    measurements: Annotated[
        Path,
        typer.Option(
            "--measurements",
            metavar="FILE",
            help="Measured latencies, a CSV with the columns model, precision, latency_ms "
            "(docs/calibration.md).",
        ),
    ],
    fit: Annotated[
        str,
        typer.Option(
            "--fit",
            metavar="NAME,...",
            help="What to fit, at most six; else what the spec marks as fitted.",
        ),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The overlay; else beside the spec."),
    ] = None,
    starts: Annotated[
        int, typer.Option("--starts", min=1, max=50, help="Fits from so many starts.")
    ] = 3,
    rounds: Annotated[
        int,
        typer.Option("--rounds", min=1, max=10, help="Compile and fit so often."),
    ] = 2,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all starts but the first.")] = 0,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Models compiled side by side.")
    ] = None,
) -> None:
    """Fit a few numbers of a hardware spec to measured latencies, and write an overlay to review.

    The spec itself isn't changed. Rows that the fit doesn't see judge it.
    """
    from flows.calibrating.calibration import (
        CalibrationRequest,
        calibrate_files,
        error_table,
        parameter_table,
        require_replaceable,
        row_table,
        write_overlay,
    )
    from flows.project.places import hardware_path, require_writable
    from stages.calibration.fit import FitOptions
    from stages.hardware.overlay import OVERLAY_SUFFIX

    project, terminal = options(context).project, options(context).terminal
    spec = hardware_path(hardware, project)
    names = [name.strip() for name in fit.split(",") if name.strip()]
    request = CalibrationRequest(
        spec, measurements, names, FitOptions(starts, seed), rounds, jobs or usable_cores()
    )
    target = out or spec.with_name(spec.name.removesuffix(spec.suffix) + OVERLAY_SUFFIX)
    require_writable(target.parent)
    require_replaceable(target)
    found = calibrate_files(request, project, terminal.say)
    for table in (row_table(found), parameter_table(found), error_table(found)):
        terminal.show(table)
    for warning in found.warnings:
        terminal.result(f"warning: {warning}")
    write_overlay(found, target)
    terminal.say(f"written to {target}; it isn't used before you have reviewed it")
