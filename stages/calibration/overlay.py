"""The overlay that a calibration writes: values to lay over a spec, once a person has read it."""

from __future__ import annotations

import hashlib
import json

from stages.calibration.calibrate import Calibration
from stages.calibration.figures import ErrorFigures, rounded
from stages.calibration.fit import Estimate
from stages.calibration.measurements import Use
from stages.calibration.parameters import Parameter
from stages.hardware.document import path_text
from stages.hardware.overlay import OVERLAY_VERSION

_NOTICE = """\
# Fitted by `recipe calibrate`; laid over {hardware}.yaml where this file is given as the hardware:
# `--hardware hardware_specs/{hardware}.overlay.yaml`. It is refused until a person has read the
# values, errors and warnings below and changed `reviewed` to true. See docs/calibration.md.
"""


def overlay_text(calibration: Calibration) -> str:
    """The overlay's YAML. The same calibration gives the same text."""
    digest = hashlib.sha256(calibration.tuner.document.content).hexdigest()
    lines = [
        _NOTICE.format(hardware=calibration.hardware),
        f"overlay: {OVERLAY_VERSION}",
        f"hardware: {calibration.hardware}",
        f"hardware_sha256: {_quoted(digest)}",
        "reviewed: false",
        "values:",
    ]
    for estimate in calibration.fit.estimates:
        lines += _value_lines(estimate, _source(calibration))
    lines += _measurement_lines(calibration)
    lines += ["errors:"]
    for name, use in (("fitted", Use.FIT), ("held_out", Use.JUDGE)):
        lines.append(f"  {name}: {_errors(calibration.figures(use))}")
    warnings = calibration.warnings
    lines.append("warnings:" if warnings else "warnings: []")
    lines += [f"  - {_quoted(warning)}" for warning in warnings]
    return "\n".join(lines) + "\n"


def _value_lines(estimate: Estimate, source: str) -> list[str]:
    parameter = estimate.parameter
    ends = (
        rounded(max(parameter.low, estimate.interval.low)),
        rounded(min(parameter.high, estimate.interval.high)),
    )
    interval = ", ".join(_scalar(parameter, end) for end in ends)
    lines = []
    for path in parameter.paths:
        lines += [
            f"  {path_text(path)}:",
            f"    value: {_scalar(parameter, estimate.value)}",
            f"    was: {_scalar(parameter, parameter.own)}",
            "    mark: fitted",
            f"    interval: [{interval}]",
            f"    source: {_quoted(source)}",
        ]
    return lines


def _source(calibration: Calibration) -> str:
    fitted, held_out = calibration.figures(Use.FIT), calibration.figures(Use.JUDGE)
    assert fitted is not None
    assert held_out is not None
    return (
        f"fitted to {fitted.count} rows of {calibration.measurements.path.name}; "
        f"mean error on {held_out.count} others {100 * held_out.mape:.1f} %"
    )


def _measurement_lines(calibration: Calibration) -> list[str]:
    measurements = calibration.measurements
    fitted = sum(1 for row in measurements.rows if row.use is Use.FIT)
    return [
        "measurements:",
        f"  file: {_quoted(measurements.path.name)}",
        f"  sha256: {_quoted(measurements.sha256)}",
        f"  fitted_rows: {fitted}",
        f"  held_out_rows: {len(measurements.rows) - fitted}",
    ]


def _errors(figures: ErrorFigures | None) -> str:
    assert figures is not None
    rank = "null" if figures.spearman is None else f"{figures.spearman:.4f}"
    mape, largest = f"{100 * figures.mape:.2f} %", f"{100 * figures.largest:.2f} %"
    return f"{{mape: {_quoted(mape)}, largest: {_quoted(largest)}, spearman: {rank}}}"


def _scalar(parameter: Parameter, value: int) -> str:
    return json.dumps(parameter.yaml(value))


def _quoted(text: str) -> str:
    """A JSON string, which is a YAML string too."""
    return json.dumps(text, ensure_ascii=False)
