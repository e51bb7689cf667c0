"""How well the device of a spec predicts the latencies that are published of its chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stages.calibration.figures import ErrorFigures, error_figures, relative_error
from stages.calibration.fit import Fit, FitOptions, FitRow, fit
from stages.calibration.measurements import Measurement, Precision, Use
from stages.calibration.plans import Compiled
from stages.calibration.predict import Tuner, predict
from stages.calibration.regression import FORMS, SizedRow, held_out, leave_one_out
from stages.calibration.work import Work
from stages.errors import InputError
from stages.hardware.load import spec_of
from stages.hardware.spec import HardwareSpec


@dataclass(frozen=True, slots=True)
class CompiledRow:
    """A measurement and the plan of its model."""

    row: Measurement
    compiled: Compiled


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A measurement that can't be predicted, and why."""

    row: Measurement
    reason: str


@dataclass(frozen=True, slots=True)
class PredictedRow:
    """A measurement, and what the shipped and the fitted spec predict for it."""

    row: Measurement
    work: Work
    fallbacks: int
    shipped_ns: int
    predicted_ns: int

    @property
    def error(self) -> float:
        """Of the fitted spec."""
        return relative_error(self.row.latency_ns, self.predicted_ns)


@dataclass(frozen=True, slots=True)
class JudgeSet:
    """Rows of the same engine from elsewhere, under a name of their own."""

    name: str
    rows: tuple[PredictedRow, ...]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True)
class RegressionErrors:
    """Mean errors of one form of regression, see `regression.py`."""

    form: str
    leave_one_out: float | None
    held_out: float | None


@dataclass(frozen=True, slots=True)
class ChipAccuracy:
    """Everything that the page says of a chip. `fit` is None where the rows are too few, which
    `unfitted` explains; predictions are the shipped spec's then."""

    spec: HardwareSpec
    tuner: Tuner
    fit: Fit | None
    unfitted: str
    rows: tuple[PredictedRow, ...]
    left_out: tuple[LeftOut, ...]
    judge_sets: tuple[JudgeSet, ...]

    @property
    def precisions(self) -> tuple[Precision, ...]:
        """Those that rows have, in the enum's order."""
        present = {item.row.precision for item in self.rows}
        return tuple(precision for precision in Precision if precision in present)

    def regressions(self, precision: Precision) -> tuple[RegressionErrors, ...]:
        """What sizes alone reach on the rows of a precision."""
        rows = [item for item in self.rows if item.row.precision is precision]
        sized = [SizedRow(item.work, item.row.latency_ns) for item in rows]
        by_use: Mapping[Use, list[SizedRow]] = {
            use: [size for item, size in zip(rows, sized, strict=True) if item.row.use is use]
            for use in Use
        }
        return tuple(
            RegressionErrors(
                form,
                leave_one_out(sized, form),
                held_out(by_use[Use.FIT], by_use[Use.JUDGE], form),
            )
            for form in FORMS
        )


def figures_of(
    rows: Sequence[PredictedRow],
    precision: Precision | None,
    use: Use | None,
    *,
    shipped: bool = False,
) -> ErrorFigures | None:
    """The errors of some rows (None: of any precision, of any use); None where there is none."""
    chosen = [
        item
        for item in rows
        if (precision is None or item.row.precision is precision)
        and (use is None or item.row.use is use)
    ]
    predicted = [item.shipped_ns if shipped else item.predicted_ns for item in chosen]
    return error_figures([item.row.latency_ns for item in chosen], predicted)


def assess(
    tuner: Tuner,
    rows: Sequence[CompiledRow],
    left_out: Sequence[LeftOut],
    judge_sets: Mapping[str, tuple[Sequence[CompiledRow], Sequence[LeftOut]]],
    options: FitOptions,
) -> ChipAccuracy:
    """Fit the tuner's parameters to the rows for it, and predict all.

    Raises:
        HardwareSpecError: the spec is wrong.
    """
    shipped = spec_of(tuner.document)
    found, unfitted = _fitted(tuner, rows, options)
    spec = shipped if found is None else tuner.spec(found.values)
    return ChipAccuracy(
        shipped,
        tuner,
        found,
        unfitted,
        _predicted(rows, shipped, spec),
        tuple(left_out),
        tuple(
            JudgeSet(name, _predicted(inside, shipped, spec), tuple(outside))
            for name, (inside, outside) in judge_sets.items()
        ),
    )


def _fitted(
    tuner: Tuner, rows: Sequence[CompiledRow], options: FitOptions
) -> tuple[Fit | None, str]:
    fitted = [
        FitRow(item.compiled.plan, item.row.latency_ns) for item in rows if item.row.use is Use.FIT
    ]
    try:
        return fit(tuner, fitted, options), ""
    except InputError as error:
        return None, error.problem


def _predicted(
    rows: Sequence[CompiledRow], shipped: HardwareSpec, fitted: HardwareSpec
) -> tuple[PredictedRow, ...]:
    return tuple(
        PredictedRow(
            item.row,
            item.compiled.work,
            item.compiled.fallbacks,
            predict(item.compiled.plan, shipped),
            predict(item.compiled.plan, fitted),
        )
        for item in rows
    )
