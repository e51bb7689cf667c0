"""One calibration: plans compiled, parameters fitted, and the rows that the fit never saw judged.

A plan depends on the spec that it was compiled for, so after a fit the plans are compiled anew for
the fitted spec and fitted again, `rounds` times in all. What is reported is of the last round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from stages.calibration.figures import ErrorFigures, error_figures, relative_error
from stages.calibration.fit import Fit, FitOptions, FitRow, fit, require_fit_rows
from stages.calibration.measurements import Measurement, Measurements, Use
from stages.calibration.parameters import Parameter
from stages.calibration.predict import Tuner, predict
from stages.errors import InputError
from stages.hardware.load import spec_of
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import Plan

_SETTLED = 1.03

PlanOf = Callable[[Measurement, HardwareSpec], Plan]
"""Compiles the model of a row for a device."""


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """A measurement, and what the spec as it was and the fitted spec predict for it."""

    row: Measurement
    before_ns: int
    predicted_ns: int

    @property
    def error(self) -> float:
        """Of the fitted spec: (predicted - measured) / measured."""
        return relative_error(self.row.latency_ns, self.predicted_ns)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a calibration found. `moved` is the largest ratio between a parameter's values in the
    last round and the one before it (1.0: the same; None where there was one round)."""

    hardware: str
    tuner: Tuner
    measurements: Measurements
    fit: Fit
    rows: tuple[JudgedRow, ...]
    moved: float | None

    def figures(self, use: Use | None, *, before: bool = False) -> ErrorFigures | None:
        """Errors on the rows of one use, or on all; of the spec as it was with `before`."""
        rows = [item for item in self.rows if use is None or item.row.use is use]
        predicted = [item.before_ns if before else item.predicted_ns for item in rows]
        return error_figures([item.row.latency_ns for item in rows], predicted)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reviewer should know beyond the errors."""
        said = [
            f"{estimate.parameter.name}: {warning}"
            for estimate in self.fit.estimates
            for warning in estimate.warnings
        ]
        if self.moved is not None and self.moved > _SETTLED:
            said.append(
                f"the last round still moved a parameter by {100 * (self.moved - 1):.0f} %: "
                "give more `--rounds`"
            )
        return tuple(said)


def calibrate(
    tuner: Tuner,
    measurements: Measurements,
    plan_of: PlanOf,
    options: FitOptions,
    rounds: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> Calibration:
    """Fit a spec's parameters to the rows for the fit, and judge all rows; `say` hears of progress.

    Raises:
        InputError: too few rows to fit, or none held out.
        CompileError: a model has no plan on this device.
        HardwareSpecError: the spec is wrong.
    """
    base = spec_of(tuner.document)
    _require_rows(measurements, len(tuner.parameters))
    plans = [plan_of(row, base) for row in measurements.rows]
    before = [predict(plan, base) for plan in plans]
    found = _fit(tuner, measurements, plans, options, say)
    moved: float | None = None
    for _ in range(rounds - 1):
        spec = tuner.spec(found.values)
        plans = [plan_of(row, spec) for row in measurements.rows]
        last = found.values
        found = _fit(_from(tuner, last), measurements, plans, options, say)
        moved = max(max(a, b) / min(a, b) for a, b in zip(last, found.values, strict=True))
        if moved == 1:
            break
    fitted = tuner.spec(found.values)
    rows = zip(measurements.rows, before, plans, strict=True)
    judged = tuple(JudgedRow(row, old, predict(plan, fitted)) for row, old, plan in rows)
    return Calibration(base.name, tuner, measurements, found, judged, moved)


def _fit(
    tuner: Tuner,
    measurements: Measurements,
    plans: Sequence[Plan],
    options: FitOptions,
    say: Callable[[str], None],
) -> Fit:
    rows = [
        FitRow(plan, row.latency_ns)
        for row, plan in zip(measurements.rows, plans, strict=True)
        if row.use is Use.FIT
    ]
    say(f"fitting {', '.join(item.name for item in tuner.parameters)} to {len(rows)} rows")
    found = fit(tuner, rows, options)
    say(f"tried {found.evaluations} specs")
    return found


def _from(tuner: Tuner, values: Sequence[int]) -> Tuner:
    """The same fit, begun at these values."""
    parameters: list[Parameter] = [
        replace(parameter, start=value)
        for parameter, value in zip(tuner.parameters, values, strict=True)
    ]
    return Tuner(tuner.document, tuple(parameters))


def _require_rows(measurements: Measurements, parameters: int) -> None:
    held_out = sum(1 for row in measurements.rows if row.use is Use.JUDGE)
    if not held_out:
        raise InputError(
            "no row is held out, so nothing could judge the fit",
            where=str(measurements.path),
            hint="write `judge` in the column `used` of half of the rows, or leave the column out",
        )
    require_fit_rows(len(measurements.rows) - held_out, parameters, str(measurements.path))
