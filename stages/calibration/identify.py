"""How well measurements pin parameters down, from the Jacobian of a fit.

With residuals r and Jacobian J over the logarithms of the parameters, weighted by the robust loss
w = rho'(r), the covariance is s^2 (J' W J)^-1, s^2 = sum(w r^2) / (rows - parameters) (Seber and
Wild, Nonlinear Regression, 2003, section 2.1.2); the interval is Student's at 95 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.calibration.parameters import Parameter

_CONFIDENCE = 0.95
_LEAST_INFLUENCE = 0.01
_WIDEST_RATIO = 2.0
_TOO_ALIKE = 0.97
_HUGE_LOG = 50.0
_LEAST_STRENGTH = 1e-12

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """Both ends of an interval, in base units."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Identified:
    """Of each parameter: the factors that make its interval of its value, the norm of its column
    of the Jacobian, and its correlation with the others."""

    spans: tuple[tuple[float, float], ...]
    influences: tuple[float, ...]
    correlations: Floats

    def warnings_of(self, index: int, parameters: Sequence[Parameter]) -> tuple[str, ...]:
        """Why a parameter isn't pinned down; empty where it is."""
        if self.influences[index] < _LEAST_INFLUENCE:
            return ("no fitted row depends on it",)
        warnings = []
        for other, parameter in enumerate(parameters):
            if other != index and abs(self.correlations[index, other]) > _TOO_ALIKE:
                warnings.append(f"the rows can't tell it from {parameter.name}")
        if self.spans[index][1] > _WIDEST_RATIO:
            warnings.append("the rows don't pin it down: its interval is wider than a factor of 2")
        return tuple(warnings)


def intervals(jacobian: Floats, residuals: Floats, scale: float) -> Identified:
    """What a fit's Jacobian (rows x parameters) and residuals say of its parameters.

    `scale` is that of the `soft_l1` loss.
    """
    from scipy.special import stdtrit

    rows, count = jacobian.shape
    weights = _weights(residuals, scale)
    variance = scatter(residuals, count, scale) ** 2
    inverse = _inverse(jacobian.T @ (weights[:, None] * jacobian))
    influences = np.linalg.norm(jacobian, axis=0)
    deviations = np.sqrt(variance * np.diag(inverse))
    reach = deviations * float(stdtrit(max(1, rows - count), (1 + _CONFIDENCE) / 2))
    reach = np.where(influences < _LEAST_INFLUENCE, _HUGE_LOG, np.minimum(reach, _HUGE_LOG))
    spread = np.sqrt(np.outer(np.diag(inverse), np.diag(inverse)))
    correlations = inverse / spread
    return Identified(
        tuple((float(np.exp(-item)), float(np.exp(item))) for item in reach),
        tuple(float(item) for item in influences),
        correlations,
    )


def scatter(residuals: Floats, count: int, scale: float) -> float:
    """s above: how far rows lie from a fit of `count` parameters."""
    weighed = float(np.sum(_weights(residuals, scale) * residuals**2))
    return float(np.sqrt(weighed / max(1, len(residuals) - count)))


def _weights(residuals: Floats, scale: float) -> Floats:
    """Those of the `soft_l1` loss."""
    return np.asarray(1 / np.sqrt(1 + (residuals / scale) ** 2))


def _inverse(information: Floats) -> Floats:
    """The inverse of a symmetric matrix; a direction without information gets a huge variance
    rather than none, as a pseudo-inverse would give it."""
    strengths, directions = np.linalg.eigh(information)
    least = max(float(strengths.max()) * _LEAST_STRENGTH, np.finfo(np.float64).tiny)
    return np.asarray((directions / np.maximum(strengths, least)) @ directions.T)
