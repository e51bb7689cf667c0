"""Stage 4, benchmark: how long does an inference take on the device, and where does the time go?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from stages.device.command import CommandDevice
from stages.device.counters import EngineTime, RunCounters
from stages.device.samples import HeatHistory, Samples
from stages.device.simulated import SimulatedDevice
from stages.errors import DeviceError, PackageError
from stages.evaluation.counter_files import groups_text, operators_text
from stages.evaluation.gate_rule import SIMULATED, Conditions
from stages.evaluation.latency import LatencySummary, summarize
from stages.evaluation.package_facts import Roofline, roofline
from stages.evaluation.report_files import (
    METRICS_FILE,
    Metrics,
    metrics_text,
    report_text,
    table_text,
)
from stages.hardware.load import load_spec
from stages.normalizer.folders import new_folder
from stages.package import read_package, require_spec
from stages.trace.chrome import chrome_trace
from stages.trace.counters import covered_ns, exposed_ns
from stages.trace.spans import Timeline

REPORT_FILE = "benchmark.json"
SAMPLES_FILE = "samples.csv"
GROUPS_FILE = "groups.csv"
OPERATORS_FILE = "operators.csv"
TRACE_FILE = "trace.json"
_RUNS_COMPARED = 5


@dataclass(frozen=True, slots=True)
class TransferTime:
    """Transfers in the jitter-free run: all their time, and the part that nothing else hides."""

    busy_ns: int
    exposed_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What the stage measured. `counters`, `engines`, `transfers` and `energy_nanojoules` are of
    the simulated run without jitter, on whatever device the latency was measured; heat is None
    where the device doesn't tell."""

    device: str
    package: str
    conditions: Conditions
    latency: LatencySummary
    roofline: Roofline
    counters: RunCounters
    engines: dict[str, EngineTime]
    transfers: TransferTime
    energy_nanojoules: float
    peak_celsius: float | None
    throttled_runs: int | None

    def as_json(self) -> dict[str, object]:
        """Plain data for the report."""
        content = asdict(self)
        content["p99_over_p50"] = round(float(self.latency.p99_over_p50), 4)
        content["roofline"] |= {"bound_ns": self.roofline.bound_ns, "ratio": self.roofline.ratio}
        return content

    def metrics(self) -> Metrics:
        """Latency in nanoseconds, its tail, and how far it lies above the least possible time."""
        return {
            "p50_ns": self.latency.p50_ns,
            "p99_ns": self.latency.p99_ns,
            "p99_over_p50": float(self.latency.p99_over_p50),
            "over_roofline": self.roofline.ratio,
        }


def benchmark(
    package_dir: Path,
    hardware: Path,
    out_dir: Path,
    *,
    runs: int,
    warmup: int,
    seed: int,
    command: Sequence[str] = (),
) -> Benchmark:
    """Measures a package; writes samples, report, groups and trace.

    The device is the simulated one, or the real one behind `command` (device/command.py says how it
    is called).

    Raises:
        PackageError: the package is damaged, was made for another spec, breaks a rule, or its
            compiler counted other cycles than the device takes without jitter.
        HardwareSpecError: the spec is wrong.
        DeviceError: two measurements of one seed differ, the device can't be reached, or it went
            off.
    """
    spec = load_spec(hardware)
    package = read_package(package_dir)
    require_spec(package, spec)
    simulated = SimulatedDevice(spec)
    simulated.load(package, package_dir)
    _check_estimate(simulated, package.decided.cycles, package_dir)
    timeline = simulated.timeline()
    activity, counters = simulated.activity, simulated.counters()
    device = CommandDevice(command) if command else simulated
    if device is simulated:
        _check_determinism(simulated, seed)
    else:
        device.load(package, package_dir)
    samples = device.measure(runs, warmup, seed)
    heat = samples.heat
    if heat is not None:
        _check_still_on(device.name, heat)
    behind = device.name if command else SIMULATED
    result = Benchmark(
        device=device.name,
        package=package.manifest.package_sha256,
        conditions=Conditions(spec.name, spec.digest, runs, warmup, seed, behind),
        latency=summarize(samples.latencies_ns.tolist()),
        roofline=roofline(package.plan, spec, activity.macs),
        counters=counters.run,
        engines=dict(counters.engines),
        transfers=_transfers(timeline),
        energy_nanojoules=round(simulated.energy.femtojoules / 1e6, 3),
        peak_celsius=None if heat is None else round(heat.peak_celsius, 3),
        throttled_runs=None if heat is None else int(np.count_nonzero(heat.clock_dividers > 1)),
    )
    processes = [(f"{package.recipe.graph.name} on {spec.name}, one run without jitter", timeline)]
    if device is simulated:
        session = simulated.session_timeline(samples, warmup, seed)
        processes.append((f"{runs} runs in a row", session))
    with new_folder(out_dir) as folder:
        (folder / REPORT_FILE).write_text(report_text(result.as_json()), encoding="utf-8")
        (folder / METRICS_FILE).write_text(metrics_text(result.metrics()), encoding="utf-8")
        (folder / SAMPLES_FILE).write_text(_samples_text(samples), encoding="utf-8")
        (folder / GROUPS_FILE).write_text(groups_text(counters.groups), encoding="utf-8")
        operators = operators_text(counters.operators)
        (folder / OPERATORS_FILE).write_text(operators, encoding="utf-8")
        (folder / TRACE_FILE).write_text(chrome_trace(processes), encoding="utf-8")
    return result


def _check_still_on(device: str, heat: HeatHistory) -> None:
    if heat.shutdown_run is not None:
        raise DeviceError(
            f"the device went off after {heat.shutdown_run} runs: its die became critical at "
            f"{heat.junction_celsius[-1]:.1f} degC",
            where=device,
            hint="see `thermal` in the hardware spec: resistance, ambient and critical temperature",
        )


def _check_estimate(device: SimulatedDevice, estimate: int, package_dir: Path) -> None:
    """A package that says nothing of its cycles (0) can't be wrong about them."""
    if estimate and estimate != device.calm_cycles:
        raise PackageError(
            f"its compiler counted {estimate:,} cycles without jitter, the device takes "
            f"{device.calm_cycles:,}",
            where=str(package_dir),
            hint="it was compiled by another version of the cost model: compile the model again",
        )


def _check_determinism(device: SimulatedDevice, seed: int) -> None:
    one, other = (device.measure(_RUNS_COMPARED, 0, seed).latencies_ns for _ in range(2))
    if not np.array_equal(one, other):
        raise DeviceError(
            f"two measurements of seed {seed} differ: {one.tolist()} and {other.tolist()} ns",
            where=device.name,
            hint="the device breaks its promise of equal runs: report it with the package",
        )


def _transfers(timeline: Timeline) -> TransferTime:
    channels = [track for track in timeline.tracks if track.startswith("dma")]
    busy = covered_ns(span for span in timeline.spans if span.track in channels)
    return TransferTime(
        busy_ns=busy,
        exposed_ns=exposed_ns(timeline, channels),
        share=round(busy / max(1, timeline.duration_ns), 4),
    )


def _samples_text(samples: Samples) -> str:
    return table_text(("run", "latency_ns"), enumerate(samples.latencies_ns.tolist()))
