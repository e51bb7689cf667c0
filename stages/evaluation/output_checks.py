"""Judging one output of a device against the reference's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

import numpy as np

from stages.evaluation.accuracy import (
    FloatAccuracy,
    IntegerAccuracy,
    compare_floats,
    compare_integers,
)
from stages.evaluation.verdict import Check
from stages.tensors import Array

_NARROW_BYTES = 2


@dataclass(frozen=True, slots=True)
class AccuracyLimits:
    """What counts as the same answer.

    Floating-point outputs: `min_cosine` and `max_relative_error` (over the reference's range), or
    `min_sqnr_db` alone where the model computes in integers. Integers of up to 16 bits may differ
    by `max_steps`, or else reach `min_sqnr_db`; wider ones and booleans must be equal in
    `min_agreement` of their elements.
    """

    min_cosine: float = 0.999
    max_relative_error: float = 0.01
    min_sqnr_db: float = 30.0
    max_steps: int = 1
    min_agreement: float = 0.99


class Measure(StrEnum):
    """What an output is judged by."""

    PRESENCE = "presence"  # it is missing, or has another shape
    COSINE = "cosine"  # and the error over the range
    SQNR = "sqnr"
    EQUALITY = "equality"  # of special values, or of integers


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """How one output of one sample compares, in figures; None where a figure doesn't apply.

    `is_conclusive` is false where the output misses its limit while the model itself moves by more
    than that when its input hardly does: the figure then says nothing by itself.
    """

    output: str
    sample: int
    check: Check
    cosine: float | None = None
    relative_error: float | None = None
    sqnr_db: float | None = None
    mismatches: int | None = None
    measure: Measure = Measure.PRESENCE
    is_conclusive: bool = True


def check_output(
    output: str,
    sample: int,
    actual: Array,
    expected: Array,
    limits: AccuracyLimits,
    is_quantized: bool,
) -> OutputFacts:
    """Compare one output; the reference's type says how."""
    name = f"output {output!r} of sample {sample}"
    if actual.shape != expected.shape:
        check = Check(
            name,
            passed=False,
            figure=f"shape {list(actual.shape)}",
            limit=f"shape {list(expected.shape)}",
            message=f"{name} has shape {list(actual.shape)}, the reference {list(expected.shape)}: "
            "recompile the package from this normalised model",
        )
        return OutputFacts(output, sample, check)
    if expected.dtype.kind in "iub" and actual.dtype.kind in "iub":
        integers = compare_integers(actual, expected)
        check, measure = _integer_check(name, integers, expected.dtype, limits)
        return OutputFacts(
            output,
            sample,
            check,
            sqnr_db=_finite(integers.sqnr_db),
            mismatches=integers.mismatches,
            measure=measure,
        )
    floats = compare_floats(actual, expected)
    check, measure = _float_check(name, floats, limits, is_quantized)
    return OutputFacts(
        output,
        sample,
        check,
        cosine=round(floats.cosine, 9),
        relative_error=float(f"{floats.relative_error:.6g}"),
        sqnr_db=_finite(floats.sqnr_db),
        mismatches=floats.special_mismatches,
        measure=measure,
    )


def missing_output(output: str, sample: int) -> OutputFacts:
    """An output that the reference has and the package hasn't."""
    name = f"output {output!r} of sample {sample}"
    message = f"{name} isn't an output of the package: recompile it from this normalised model"
    return OutputFacts(output, sample, Check(name, False, "missing", "present", message))


def _finite(value: float) -> float | None:
    return round(value, 3) if isfinite(value) else None


def _float_check(
    name: str, accuracy: FloatAccuracy, limits: AccuracyLimits, is_quantized: bool
) -> tuple[Check, Measure]:
    if accuracy.special_mismatches:
        figure = f"{accuracy.special_mismatches} NaN or infinite elements"
        check = Check(
            name,
            passed=False,
            figure=figure,
            limit="0",
            message=f"{name} has {figure} where the reference hasn't (or has others): look for "
            "overflows in validation.json, and keep the operators named there in float32",
        )
        return check, Measure.EQUALITY
    if is_quantized:
        return _sqnr_check(name, accuracy.sqnr_db, limits), Measure.SQNR
    figure = f"cosine {accuracy.cosine:.6f}, error {accuracy.relative_error:.3%} of the range"
    limit = f"cosine {limits.min_cosine}, error {limits.max_relative_error:.3%}"
    passed = (
        accuracy.cosine >= limits.min_cosine
        and accuracy.relative_error <= limits.max_relative_error
    )
    message = (
        f"{name}: {figure}; the limit is {limit}: compare with the recipe's precision notes "
        "(`recipe show PACKAGE`), or loosen `validate` in params.yaml"
    )
    return Check(name, passed, figure, limit, "" if passed else message), Measure.COSINE


def _sqnr_check(name: str, sqnr_db: float, limits: AccuracyLimits) -> Check:
    passed = sqnr_db >= limits.min_sqnr_db
    figure, limit = f"SQNR {sqnr_db:.1f} dB", f"{limits.min_sqnr_db:g} dB"
    message = (
        f"{name}: {figure} against the float meaning, below the limit of {limit}: quantise per "
        "channel, leave the first and last layers in float, or lower `validate.min_sqnr_db` in "
        "params.yaml"
    )
    return Check(name, passed, figure, limit, "" if passed else message)


def _integer_check(
    name: str, accuracy: IntegerAccuracy, dtype: np.dtype[np.generic], limits: AccuracyLimits
) -> tuple[Check, Measure]:
    if dtype.kind != "b" and dtype.itemsize <= _NARROW_BYTES:
        if accuracy.largest_difference <= limits.max_steps:
            figure = f"off by at most {accuracy.largest_difference}"
            check = Check(name, passed=True, figure=figure, limit=str(limits.max_steps))
            return check, Measure.EQUALITY
        return _sqnr_check(name, accuracy.sqnr_db, limits), Measure.SQNR
    allowed = int((1 - limits.min_agreement) * accuracy.elements)
    passed = accuracy.mismatches <= allowed
    figure = f"{accuracy.mismatches} of {accuracy.elements} elements differ"
    message = (
        f"{name}: {figure}, {allowed} may: where it comes from a comparison, its operands are too "
        "close for the device's precision; run that part in float32"
    )
    return Check(name, passed, figure, str(allowed), "" if passed else message), Measure.EQUALITY
