"""Stage 6, thermal stress: does the latency's tail hold on a hot die?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from stages.device.samples import HeatHistory, Samples
from stages.device.simulated import SimulatedDevice
from stages.errors import InputError
from stages.evaluation.latency import LatencySummary
from stages.evaluation.report_files import (
    METRICS_FILE,
    Metrics,
    metrics_text,
    report_text,
    table_text,
)
from stages.evaluation.thermal_run import StressLimits, judge_hot_run
from stages.evaluation.verdict import Check, Verdict
from stages.hardware.load import load_spec
from stages.hardware.spec import HardwareSpec
from stages.normalizer.folders import new_folder
from stages.package import read_package, require_spec

__all__ = ["Stress", "StressLimits", "thermal_stress"]

REPORT_FILE = "stress.json"
HISTORY_FILE = "stress.csv"


@dataclass(frozen=True, slots=True)
class Stress:
    """The verdict, why, and what latency, clock and die did. `runs_by_divider` counts runs by the
    slowest clock divider in them."""

    verdict: Verdict
    reasons: tuple[str, ...]
    checks: tuple[Check, ...]
    latency: LatencySummary
    junction_celsius: float
    ambient_celsius: float
    peak_celsius: float
    final_celsius: float
    throttled_runs: int
    runs_by_divider: dict[str, int]
    shutdown_run: int | None
    seed: int
    device: str
    package: str

    def as_json(self) -> dict[str, object]:
        """Plain data for the report."""
        content = asdict(self)
        content["p99_over_p50"] = round(float(self.latency.p99_over_p50), 4)
        return content

    def metrics(self) -> Metrics:
        """The verdict, latency on the hot die in nanoseconds, and what the die and clock did."""
        return {
            "verdict": self.verdict,
            "hot_p50_ns": self.latency.p50_ns,
            "hot_p99_ns": self.latency.p99_ns,
            "hot_p99_over_p50": float(self.latency.p99_over_p50),
            "hot_peak_celsius": self.peak_celsius,
            "throttled_runs": self.throttled_runs,
        }


def thermal_stress(
    package_dir: Path,
    hardware: Path,
    out_dir: Path,
    *,
    runs: int,
    seed: int,
    junction_celsius: float,
    limits: StressLimits,
) -> Stress:
    """Runs a package in a heat chamber that keeps the idle die at `junction_celsius`.

    Raises:
        PackageError: the package is damaged, or was made for another spec.
        HardwareSpecError: the spec is wrong.
        InputError: the temperature is one at which the device is off.
        DeviceError: the device gave no sample.
    """
    spec = load_spec(hardware)
    package = read_package(package_dir)
    require_spec(package, spec)
    _check_temperature(spec, junction_celsius)
    device = SimulatedDevice(spec)
    device.load(package, package_dir)
    samples = device.soak(runs, seed, junction_celsius)
    judged = judge_hot_run(samples, runs, junction_celsius, limits)
    heat = samples.heat
    assert heat is not None
    result = Stress(
        verdict=judged.verdict,
        reasons=judged.reasons,
        checks=judged.checks,
        latency=judged.latency,
        junction_celsius=junction_celsius,
        ambient_celsius=round(heat.ambient_celsius, 3),
        peak_celsius=round(judged.peak_celsius, 3),
        final_celsius=round(float(heat.junction_celsius[-1]), 3),
        throttled_runs=judged.throttled_runs,
        runs_by_divider={str(key): count for key, count in judged.runs_by_divider.items()},
        shutdown_run=judged.shutdown_run,
        seed=seed,
        device=device.name,
        package=package.manifest.package_sha256,
    )
    with new_folder(out_dir) as folder:
        (folder / REPORT_FILE).write_text(report_text(result.as_json()), encoding="utf-8")
        (folder / METRICS_FILE).write_text(metrics_text(result.metrics()), encoding="utf-8")
        (folder / HISTORY_FILE).write_text(_history_text(samples, heat), encoding="utf-8")
    return result


def _check_temperature(spec: HardwareSpec, junction_celsius: float) -> None:
    critical = spec.thermal.critical_celsius
    if junction_celsius >= critical:
        raise InputError(
            f"a hot run from {junction_celsius:g} degC: {spec.name} goes off at {critical:g} degC",
            hint="lower `thermal_stress.junction_celsius` in params.yaml",
        )


def _history_text(samples: Samples, heat: HeatHistory) -> str:
    header = ("run", "latency_ns", "junction_celsius", "clock_divider")
    columns = zip(
        samples.latencies_ns.tolist(),
        heat.junction_celsius.tolist(),
        heat.clock_dividers.tolist(),
        strict=True,
    )
    rows = ((run, ns, f"{celsius:.3f}", d) for run, (ns, celsius, d) in enumerate(columns))
    return table_text(header, rows)
