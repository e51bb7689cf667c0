"""Judging a hot run: the tail of its latencies, and what the clock and the die did."""

from __future__ import annotations

from dataclasses import dataclass

from stages.device.samples import HeatHistory, Samples
from stages.errors import DeviceError
from stages.evaluation.latency import LatencySummary, ratio_text, summarize
from stages.evaluation.verdict import Check, Verdict, verdict_of


@dataclass(frozen=True, slots=True)
class StressLimits:
    """How long the tail of a hot run may be."""

    max_p99_over_p50: float = 2.0


@dataclass(frozen=True, slots=True)
class HotRun:
    """A hot run judged. `throttled_runs` ran at a divided clock, at least in part."""

    verdict: Verdict
    checks: tuple[Check, ...]
    reasons: tuple[str, ...]
    latency: LatencySummary
    peak_celsius: float
    throttled_runs: int
    runs_by_divider: dict[int, int]
    shutdown_run: int | None


def judge_hot_run(
    samples: Samples, runs: int, junction_celsius: float, limits: StressLimits
) -> HotRun:
    """FAIL where P99/P50 is over its limit, or the device went off before all runs were done.

    Raises:
        DeviceError: the device kept no heat history, or gave no sample.
    """
    heat = samples.heat
    if heat is None or samples.latencies_ns.size == 0:
        raise DeviceError(
            "the device gave no hot samples",
            hint="only a device whose temperature is known can be stressed",
        )
    latency = summarize(samples.latencies_ns.tolist())
    checks = (
        _tail_check(latency, heat, junction_celsius, limits),
        _shutdown_check(latency, heat, runs),
    )
    dividers = heat.clock_dividers.tolist()
    counts = {divider: dividers.count(divider) for divider in sorted(set(dividers))}
    throttled = sum(count for divider, count in counts.items() if divider > 1)
    peak = float(heat.junction_celsius.max())
    failed = tuple(check.message for check in checks if not check.passed)
    summary = (
        f"P99/P50 {ratio_text(latency.p99_over_p50)} over {latency.runs} runs from "
        f"{junction_celsius:g} degC, {throttled} of them throttled, die at most {peak:.1f} degC"
    )
    return HotRun(
        verdict=verdict_of(checks),
        checks=checks,
        reasons=failed or (summary,),
        latency=latency,
        peak_celsius=peak,
        throttled_runs=throttled,
        runs_by_divider=counts,
        shutdown_run=heat.shutdown_run,
    )


def _tail_check(
    latency: LatencySummary, heat: HeatHistory, junction_celsius: float, limits: StressLimits
) -> Check:
    passed = not latency.exceeds_tail(limits.max_p99_over_p50)
    figure = ratio_text(latency.p99_over_p50)
    slowest = int(heat.clock_dividers.max())
    message = (
        f"P99/P50 at {junction_celsius:g} degC is {figure}, over the limit of "
        f"{limits.max_p99_over_p50}: the clock was divided by up to {slowest}; cut the energy of "
        "an inference (smaller tiles in flight, int8), cool the device, or raise "
        "`thermal_stress.max_p99_over_p50` in params.yaml"
    )
    return Check(
        "p99_over_p50", passed, figure, str(limits.max_p99_over_p50), "" if passed else message
    )


def _shutdown_check(latency: LatencySummary, heat: HeatHistory, runs: int) -> Check:
    passed = heat.shutdown_run is None and latency.runs == runs
    message = (
        f"the device went off in run {heat.shutdown_run} at {heat.junction_celsius[-1]:.1f} degC, "
        f"after {latency.runs} of {runs} runs: its critical temperature was reached; cool the "
        "device or cut the energy of an inference"
    )
    return Check("all_runs", passed, str(latency.runs), str(runs), "" if passed else message)
