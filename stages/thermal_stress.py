"""Stage 6, thermal stress: does the latency's tail hold on a hot die?

A stress run starts in one of two ways (`Surroundings`):

- In a heat chamber, whose air keeps the idle die at `junction_celsius`. This is "at 85 degC": the
  sensor reads 85 degC when the first inference comes, the load heats the die further, and no
  throttling cools it below. A chip that trips at 85 degC is throttled from the first run, as
  its driver would at that reading: then the tail is that of throttled runs, and `slowdown` says
  what the heat costs. A chip that trips later shows whether its own heat takes it there.
- In air of `ambient_celsius`, where it has long stood idle. This is the field: the die warms by
  its own work, and throttles when and if it gets there.

Either way the air may move, where the spec says what that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from stages.device.energy import InferenceEnergy
from stages.device.samples import HeatHistory, Samples
from stages.device.session import Length
from stages.device.simulated import SimulatedDevice
from stages.device.surroundings import Surroundings
from stages.errors import InputError
from stages.evaluation.latency import LatencySummary
from stages.evaluation.report_files import (
    METRICS_FILE,
    Metrics,
    metrics_text,
    report_text,
    table_text,
)
from stages.evaluation.thermal_run import HotRun, StressLimits, judge_hot_run
from stages.evaluation.verdict import Check, Verdict
from stages.hardware.load import load_spec
from stages.hardware.spec import HardwareSpec
from stages.normalizer.folders import new_folder
from stages.package import read_package, require_spec

__all__ = ["Length", "Stress", "StressLimits", "Surroundings", "thermal_stress"]

REPORT_FILE = "stress.json"
HISTORY_FILE = "stress.csv"
_HISTORY_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Heat:
    """Joules of the whole session: supplied = stored in the stages + released to the air."""

    supplied_joules: float
    stored_joules: float
    released_joules: float


@dataclass(frozen=True, slots=True)
class Stress:
    """The verdict, why, and what latency, clock and die did.

    `junction_celsius` is the idle die before the first run; `in_chamber` tells whether a chamber
    keeps it there. `runs_by_divider` counts runs by the nominal clock over the slowest one in them;
    `full_clock_p50_ns` is the median had the clock stayed nominal, and `slowdown` the hot one over
    it. `energy_nanojoules` is that of one inference at the nominal voltage, by opcode.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    checks: tuple[Check, ...]
    latency: LatencySummary
    full_clock_p50_ns: int
    slowdown: float
    in_chamber: bool
    junction_celsius: float
    ambient_celsius: float
    airflow_m_per_s: float | None
    peak_celsius: float
    final_celsius: float
    throttled_runs: int
    clock_changes: int
    runs_by_divider: dict[str, int]
    shutdown_run: int | None
    heat: Heat
    energy_nanojoules: dict[str, float]
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
            "hot_slowdown": self.slowdown,
            "hot_peak_celsius": self.peak_celsius,
            "throttled_runs": self.throttled_runs,
        }


def thermal_stress(
    package_dir: Path,
    hardware: Path,
    out_dir: Path,
    *,
    length: Length,
    seed: int,
    where: Surroundings,
    limits: StressLimits,
) -> Stress:
    """Runs a package back to back on a device that stood idle in those surroundings.

    Raises:
        PackageError: the package is damaged, was made for another spec, or breaks a rule.
        HardwareSpecError: the spec is wrong.
        InputError: the temperature is one at which the device is off, or the spec says nothing of
            air at that speed.
        DeviceError: the device gave no sample.
    """
    spec = load_spec(hardware)
    package = read_package(package_dir)
    require_spec(package, spec)
    _check_temperature(spec, where)
    device = SimulatedDevice(spec)
    device.load(package, package_dir)
    samples = device.soak(length, seed, where)
    judged = judge_hot_run(samples, length.runs, limits)
    heat = samples.heat
    assert heat is not None
    names = (device.name, package.manifest.package_sha256)
    result = _stress(judged, heat, where, device.energy, seed, names)
    with new_folder(out_dir) as folder:
        (folder / REPORT_FILE).write_text(report_text(result.as_json()), encoding="utf-8")
        (folder / METRICS_FILE).write_text(metrics_text(result.metrics()), encoding="utf-8")
        (folder / HISTORY_FILE).write_text(_history_text(samples, heat), encoding="utf-8")
    return result


def _stress(
    judged: HotRun,
    heat: HeatHistory,
    where: Surroundings,
    energy: InferenceEnergy,
    seed: int,
    names: tuple[str, str],
) -> Stress:
    ledger = heat.ledger
    air = where.air_millimetres_per_second
    return Stress(
        verdict=judged.verdict,
        reasons=judged.reasons,
        checks=judged.checks,
        latency=judged.latency,
        full_clock_p50_ns=judged.full_clock_p50_ns,
        slowdown=round(float(judged.slowdown), 4),
        in_chamber=where.junction_celsius is not None,
        junction_celsius=round(heat.start_celsius, 3),
        ambient_celsius=round(heat.ambient_celsius, 3),
        airflow_m_per_s=None if air is None else air / 1000,
        peak_celsius=round(judged.peak_celsius, 3),
        final_celsius=round(float(heat.junction_celsius[-1]), 3),
        throttled_runs=judged.throttled_runs,
        clock_changes=judged.clock_changes,
        runs_by_divider={f"{key:.4g}": count for key, count in judged.runs_by_divider.items()},
        shutdown_run=judged.shutdown_run,
        heat=Heat(
            round(ledger.supplied_joules, 6),
            round(ledger.stored_joules, 6),
            round(ledger.released_joules, 6),
        ),
        energy_nanojoules={
            str(opcode): round(femtojoules / 1e6, 3)
            for opcode, femtojoules in sorted(energy.by_opcode().items())
            if femtojoules
        },
        seed=seed,
        device=names[0],
        package=names[1],
    )


def _check_temperature(spec: HardwareSpec, where: Surroundings) -> None:
    critical = spec.thermal.critical_celsius
    for key, celsius in (
        ("junction_celsius", where.junction_celsius),
        ("ambient_celsius", where.ambient_celsius),
    ):
        if celsius is not None and celsius >= critical:
            raise InputError(
                f"a hot run from {celsius:g} degC: {spec.name} goes off at {critical:g} degC",
                hint=f"lower `thermal_stress.{key}` in params.yaml, or the option",
            )


def _history_text(samples: Samples, heat: HeatHistory) -> str:
    """Every run, or every n-th where there are more than fit a table."""
    header = ("run", "latency_ns", "junction_celsius", "clock_divider")
    return table_text(header, _history_rows(samples, heat))


def _history_rows(samples: Samples, heat: HeatHistory) -> Iterator[tuple[object, ...]]:
    runs = samples.latencies_ns.size
    every = -(-runs // _HISTORY_ROWS)
    columns = zip(
        range(0, runs, every),
        samples.latencies_ns[::every].tolist(),
        heat.junction_celsius[::every].tolist(),
        heat.clock_dividers[::every].tolist(),
        strict=True,
    )
    for run, latency, celsius, divider in columns:
        yield run, latency, f"{celsius:.3f}", f"{divider:.4g}"
