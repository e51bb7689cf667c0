"""What regressions on a network's size alone reach: the least that a device model must beat.

Two forms, over multiply-accumulates, parameters and activations (`work.py`):

    log_linear   log t = a + b log(macs) + c log(parameters) + d log(activations)
    linear       t = a + b macs + c parameters + d activations, no coefficient below zero, errors
                 relative to the measurement

Each is judged by leaving one row out at a time, and once as the device is: fitted to some rows and
judged on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from stages.calibration.work import Work

FEATURES = 4
"""Numbers that each form fits."""

Floats = NDArray[np.float64]
_Predict = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class SizedRow:
    """A network's size, and its measured latency."""

    work: Work
    measured_ns: float


def leave_one_out(rows: Sequence[SizedRow], form: str) -> float | None:
    """The mean absolute relative error where each row is predicted from all the others; None where
    there are too few rows to fit the form to."""
    if len(rows) - 1 <= FEATURES:
        return None
    errors = []
    for index, row in enumerate(rows):
        others = [*rows[:index], *rows[index + 1 :]]
        errors.append(_mean_error(others, [row], form))
    return float(np.mean(errors))


def held_out(fitted: Sequence[SizedRow], judged: Sequence[SizedRow], form: str) -> float | None:
    """The mean absolute relative error on rows that weren't fitted; None where too few were."""
    if len(fitted) <= FEATURES or not judged:
        return None
    return _mean_error(fitted, judged, form)


def _mean_error(fitted: Sequence[SizedRow], judged: Sequence[SizedRow], form: str) -> float:
    predict = FORMS[form](_sizes(fitted), _latencies(fitted))
    measured = _latencies(judged)
    return float(np.mean(np.abs(predict(_sizes(judged)) - measured) / measured))


def _sizes(rows: Sequence[SizedRow]) -> Floats:
    """float64[rows, 3]; a network without one of them counts as having one."""
    numbers = [(row.work.macs, row.work.parameters, row.work.activations) for row in rows]
    return np.maximum(1.0, np.array(numbers, dtype=np.float64))


def _latencies(rows: Sequence[SizedRow]) -> Floats:
    return np.array([row.measured_ns for row in rows], dtype=np.float64)


def _log_linear(sizes: Floats, latencies: Floats) -> _Predict:
    design = _with_constant(np.log(sizes))
    coefficients, *_ = np.linalg.lstsq(design, np.log(latencies), rcond=None)
    return lambda other: np.exp(_with_constant(np.log(other)) @ coefficients)


def _linear(sizes: Floats, latencies: Floats) -> _Predict:
    from scipy.optimize import nnls

    scale = sizes.max(axis=0)
    weighted = _with_constant(sizes / scale) / latencies[:, None]
    norms = np.linalg.norm(weighted, axis=0)
    coefficients = nnls(weighted / norms, np.ones(len(latencies)))[0] / norms
    return lambda other: np.asarray(_with_constant(other / scale) @ coefficients)


def _with_constant(columns: Floats) -> Floats:
    return np.column_stack([np.ones(len(columns)), columns])


FORMS: Mapping[str, Callable[[Floats, Floats], _Predict]] = MappingProxyType(
    {"log_linear": _log_linear, "linear": _linear}
)
"""Each form, by name: from sizes and latencies to a predictor."""
