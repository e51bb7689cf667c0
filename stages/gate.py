"""Stage 5, gate: may this package replace the accepted one?"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path

from stages.errors import InputError
from stages.evaluation.baseline import Baseline, Measured, Validated
from stages.evaluation.gate_rule import Figures, GateLimits, decide
from stages.evaluation.latency import LatencySummary
from stages.evaluation.report_files import (
    METRICS_FILE,
    Metrics,
    metrics_text,
    read_report,
    report_text,
)
from stages.evaluation.verdict import Check, Verdict
from stages.normalizer.folders import new_folder

__all__ = ["GateLimits", "GateVerdict", "accept_baseline", "gate"]

REPORT_FILE = "gate.json"
_BENCHMARK_FILE = "benchmark.json"
_SAMPLES_FILE = "samples.csv"
_VALIDATION_FILE = "validation.json"


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The verdict, why, and the figures of this package and of the accepted one."""

    verdict: Verdict
    reasons: tuple[str, ...]
    checks: tuple[Check, ...]
    is_baseline_stale: bool
    latency: LatencySummary
    baseline: LatencySummary | None
    fused_groups: int
    baseline_fused_groups: int | None
    package: str
    baseline_package: str | None

    def as_json(self) -> dict[str, object]:
        """Plain data for the report."""
        return asdict(self)

    def metrics(self) -> Metrics:
        """The verdict, and the new P99 over the accepted one."""
        old = self.baseline
        over = None if old is None else self.latency.p99_ns / old.p99_ns
        return {"verdict": self.verdict, "p99_over_baseline": over}


def gate(
    benchmark_dir: Path,
    validation_dir: Path,
    baseline: Path | None,
    out_dir: Path,
    *,
    limits: GateLimits,
) -> GateVerdict:
    """Compares a package with the accepted one and writes `gate.json`. No file, no baseline: NEW.

    Raises:
        InputError: a report or the baseline can't be read, or the reports are of two packages.
    """
    measured, validated = _read_reports(benchmark_dir, validation_dir)
    accepted = None
    if baseline is not None and baseline.exists():
        accepted = read_report(baseline, Baseline, "baseline accept")
    new = Figures(measured.conditions, measured.latency, validated.fused_groups)
    decision = decide(new, accepted.figures if accepted else None, limits)
    result = GateVerdict(
        verdict=decision.verdict,
        reasons=decision.reasons,
        checks=decision.checks,
        is_baseline_stale=decision.is_baseline_stale,
        latency=new.latency,
        baseline=accepted.latency if accepted else None,
        fused_groups=new.fused_groups,
        baseline_fused_groups=accepted.fused_groups if accepted else None,
        package=measured.package,
        baseline_package=accepted.package if accepted else None,
    )
    with new_folder(out_dir) as folder:
        (folder / REPORT_FILE).write_text(report_text(result.as_json()), encoding="utf-8")
        (folder / METRICS_FILE).write_text(metrics_text(result.metrics()), encoding="utf-8")
    return result


def _read_reports(benchmark_dir: Path, validation_dir: Path) -> tuple[Measured, Validated]:
    """The two reports of one package."""
    measured = read_report(benchmark_dir / _BENCHMARK_FILE, Measured, "benchmark")
    validated = read_report(validation_dir / _VALIDATION_FILE, Validated, "validate")
    if measured.package != validated.package:
        raise InputError(
            f"benchmark and validation are of different packages: {measured.package} and "
            f"{validated.package}",
            where=str(validation_dir),
            hint="run `recipe validate` and `recipe benchmark` on the same package",
        )
    return measured, validated


def accept_baseline(benchmark_dir: Path, validation_dir: Path, baseline: Path) -> Baseline:
    """Takes a validated benchmark as the baseline: `MODEL.json` and `MODEL.samples.csv` beside it.

    Raises:
        InputError: a report is missing, the two are of different packages, the validation failed,
            or the baseline can't be written.
    """
    measured, validated = _read_reports(benchmark_dir, validation_dir)
    if validated.verdict != Verdict.PASS:
        raise InputError(
            f"the validation of this package says {validated.verdict}",
            where=str(validation_dir),
            hint="only a package that passes its validation can be a baseline",
        )
    accepted = Baseline.of(measured, validated)
    try:
        samples = (benchmark_dir / _SAMPLES_FILE).read_text(encoding="utf-8")
        baseline.parent.mkdir(parents=True, exist_ok=True)
        _replace(baseline.with_name(f"{baseline.stem}.samples.csv"), samples)
        _replace(baseline, report_text(accepted.as_json()))
    except OSError as error:
        raise InputError(
            f"the baseline can't be written: {error.strerror}",
            where=str(baseline),
            hint="check the folder's permissions and the disk's free space",
        ) from error
    return accepted


def _replace(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
