"""Fits parameters of a spec to measured latencies.

Residuals are errors relative to the measurement, predicted / measured - 1, as they are judged
later, so that a model of 1 ms weighs as much as one of 100 ms; parameters are looked for as
logarithms. Large residuals count less (`soft_l1`), so that a row which the device can't explain
doesn't bend the others; `docs/calibration.md` compares losses, each row left out in turn. Plans
stay as they were compiled and are priced anew. Several starts, the spec's own values first; equal
inputs give equal results.

The last descent weighs the spec's own values like measurements: taken for right within a factor of
two (one standard deviation), against the scatter of the rows around the fit so far. It is the most
likely estimate a posteriori for such a prior. Rows that pin a parameter down move it all the same;
one that they leave open stays where its source puts it, and doesn't wander off to explain an odd
row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stages.calibration.figures import relative_error
from stages.calibration.identify import Interval, intervals, scatter
from stages.calibration.parameters import Parameter
from stages.calibration.predict import Predictor, Tuner
from stages.errors import InputError
from stages.plan.instructions import Plan

SPARE_ROWS = 1
"""How many more rows than parameters a fit needs: without, it would always be perfect."""

OUTLIER = 0.1
"""Residuals beyond about this (10 %) count less."""

PRIOR_FACTOR = 2.0
"""By what factor a spec's own value may be off: one standard deviation."""

_STEP = 0.02
_START_SPREAD = 1.0
_FIRST_STEPS = 6
_MAX_STEPS = 30
_TOLERANCE = 1e-4
_LAST_TOLERANCE = 1e-7
_TWO_START_TIES = 1e-9

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FitRow:
    """A plan, and what it took on the real device."""

    plan: Plan
    measured_ns: float


@dataclass(frozen=True, slots=True)
class FitOptions:
    """How many starts, and the seed of all but the first."""

    starts: int = 3
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A fitted parameter, in base units of its dimension, with the interval that holds it at 95 %
    and what is wrong with it (not pinned down by the rows, at its bound), if anything."""

    parameter: Parameter
    value: int
    interval: Interval
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fit:
    """The estimates in the parameters' order; `evaluations` counts the specs that were tried."""

    estimates: tuple[Estimate, ...]
    cost: float
    evaluations: int

    @property
    def values(self) -> tuple[int, ...]:
        """The fitted values, in the parameters' order."""
        return tuple(estimate.value for estimate in self.estimates)


def fit(tuner: Tuner, rows: Sequence[FitRow], options: FitOptions) -> Fit:
    """Fit the tuner's parameters to the rows.

    Raises:
        InputError: too few rows for the parameters.
        HardwareSpecError: a value within the bounds contradicts the rest of the spec.
    """
    count = len(tuner.parameters)
    require_fit_rows(len(rows), count)
    problem = _Problem(tuner, tuple(rows))
    best, cost = _best_of_starts(problem, options)
    values = problem.values(best)
    found = intervals(problem.jacobian(best), problem.residuals(best), OUTLIER)
    estimates = [
        Estimate(
            parameter,
            value,
            _scaled(found.spans[index], value),
            (*found.warnings_of(index, tuner.parameters), *_bound_warning(parameter, value)),
        )
        for index, (parameter, value) in enumerate(zip(tuner.parameters, values, strict=True))
    ]
    return Fit(tuple(estimates), cost, problem.evaluations)


def require_fit_rows(rows: int, parameters: int, where: str = "--measurements") -> None:
    """Refuse too few rows for so many parameters.

    Raises:
        InputError: there are too few.
    """
    needed = parameters + SPARE_ROWS
    if rows < needed:
        raise InputError(
            f"{rows} rows to fit can't pin down {parameters} parameters: it takes {needed}",
            where=where,
            hint="name fewer parameters with `--fit`, or measure more models",
        )


@dataclass(slots=True)
class _Problem:
    """Residuals over logarithms of the parameters; each rounded point is priced once."""

    tuner: Tuner
    rows: tuple[FitRow, ...]
    _known: dict[tuple[int, ...], Floats] = field(init=False, default_factory=dict)
    _predictors: tuple[Predictor, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._predictors = tuple(Predictor(row.plan) for row in self.rows)

    @property
    def evaluations(self) -> int:
        return len(self._known)

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        parameters = self.tuner.parameters
        low = np.log([parameter.low for parameter in parameters])
        return low, np.log([parameter.high for parameter in parameters])

    def values(self, point: Floats) -> tuple[int, ...]:
        """The point as whole base units within the bounds."""
        return tuple(
            min(max(_significant(float(np.exp(x))), parameter.low), parameter.high)
            for x, parameter in zip(point, self.tuner.parameters, strict=True)
        )

    def residuals(self, point: Floats) -> Floats:
        values = self.values(point)
        found = self._known.get(values)
        if found is None:
            spec = self.tuner.spec(values)
            errors = [
                relative_error(row.measured_ns, predictor.predict(spec))
                for predictor, row in zip(self._predictors, self.rows, strict=True)
            ]
            found = self._known[values] = np.array(errors)
        return found

    def slopes(self, point: Floats) -> Floats:
        """The Jacobian by differences to one side, for the descent."""
        return self._differences(point, back=0.0)

    def jacobian(self, point: Floats) -> Floats:
        """The Jacobian by differences to both sides, for the intervals."""
        return self._differences(point, back=_STEP)

    def _differences(self, point: Floats, back: float) -> Floats:
        """Differences over a step that rounding to whole units and cycles doesn't blur."""
        low, high = self.bounds
        columns = []
        for index in range(len(point)):
            before, after = point.copy(), point.copy()
            before[index] = max(low[index], point[index] - back)
            after[index] = min(high[index], point[index] + _STEP)
            if after[index] - before[index] < _STEP:
                before[index] = max(low[index], point[index] - _STEP)
            ends = [np.log(self.values(end)[index]) for end in (before, after)]
            if ends[0] == ends[1]:
                columns.append(np.zeros(len(self.rows)))
                continue
            change = self.residuals(after) - self.residuals(before)
            columns.append(change / (ends[1] - ends[0]))
        return np.stack(columns, axis=1)


def _significant(value: float) -> int:
    """Rounded to five significant digits: what the YAML shows is what was tried."""
    scale = int(10 ** max(0, len(str(int(value))) - 5))
    return int(max(1, round(value / scale) * scale))


def _best_of_starts(problem: _Problem, options: FitOptions) -> tuple[Floats, float]:
    """Some way down from every start, and all the way from the best point; of equals the
    earliest."""
    best, least = np.empty(0), np.inf
    for start in _starts(problem, options):
        point, cost = _descend(problem, start, _FIRST_STEPS, _TOLERANCE)
        if cost < least - _TWO_START_TIES:
            best, least = point, cost
    best, _ = _descend(problem, best, _MAX_STEPS, _LAST_TOLERANCE)
    held = scatter(problem.residuals(best), len(best), OUTLIER) / np.log(PRIOR_FACTOR)
    return _descend(problem, best, _MAX_STEPS, _LAST_TOLERANCE, held)


def _starts(problem: _Problem, options: FitOptions) -> list[Floats]:
    low, high = problem.bounds
    first = np.log([float(parameter.start) for parameter in problem.tuner.parameters])
    random = np.random.Generator(np.random.Philox(options.seed))
    others = [
        first + random.uniform(-_START_SPREAD, _START_SPREAD, len(first))
        for _ in range(options.starts - 1)
    ]
    margin = np.minimum(1e-3, (high - low) / 4)
    return [np.clip(start, low + margin, high - margin) for start in (first, *others)]


def _descend(
    problem: _Problem, start: Floats, steps: int, tolerance: float, held: float = 0.0
) -> tuple[Floats, float]:
    """One search; `held` is what a parameter at e times the spec's value weighs as a residual."""
    from scipy.optimize import least_squares

    own = np.log([float(parameter.own) for parameter in problem.tuner.parameters])

    def residuals(point: Floats) -> Floats:
        return np.concatenate([problem.residuals(point), held * (point - own)])

    def slopes(point: Floats) -> Floats:
        return np.concatenate([problem.slopes(point), held * np.eye(len(own))])

    found = least_squares(
        residuals,
        start,
        jac=slopes,
        bounds=problem.bounds,
        loss="soft_l1",
        f_scale=OUTLIER,
        xtol=tolerance,
        ftol=tolerance,
        gtol=tolerance,
        max_nfev=steps,
    )
    return np.asarray(found.x, dtype=np.float64), float(found.cost)


def _scaled(span: tuple[float, float], value: int) -> Interval:
    return Interval(value * span[0], value * span[1])


def _bound_warning(parameter: Parameter, value: int) -> tuple[str, ...]:
    for name, bound in (("lower", parameter.low), ("upper", parameter.high)):
        if abs(value - bound) <= bound * 0.005:
            return (f"at its {name} bound, {parameter.text(bound)}",)
    return ()
