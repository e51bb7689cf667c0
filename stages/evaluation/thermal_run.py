"""Judging a hot run: the tail of its latencies, and what the clock and the die did."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from stages.device.samples import HeatHistory, Samples
from stages.errors import DeviceError
from stages.evaluation.latency import LatencySummary, ratio_text, summarize_array
from stages.evaluation.verdict import Check, Verdict, verdict_of


@dataclass(frozen=True, slots=True)
class StressLimits:
    """How long the tail of a hot run may be, and how many times slower its median than that of the
    same runs at the nominal clock (None: as slow as it gets)."""

    max_p99_over_p50: float = 2.0
    max_slowdown: float | None = None


@dataclass(frozen=True, slots=True)
class HotRun:
    """A hot run judged.

    `throttled_runs` ran at a slower clock, at least in part; `full_clock_p50_ns` is the median
    under the same weather had none; `clock_changes` counts runs whose slowest clock differs from
    that of the run before.
    """

    verdict: Verdict
    checks: tuple[Check, ...]
    reasons: tuple[str, ...]
    latency: LatencySummary
    full_clock_p50_ns: int
    peak_celsius: float
    throttled_runs: int
    clock_changes: int
    runs_by_divider: dict[float, int]
    shutdown_run: int | None

    @property
    def slowdown(self) -> Fraction:
        """The hot median over that at the nominal clock."""
        return Fraction(self.latency.p50_ns, self.full_clock_p50_ns)


def judge_hot_run(samples: Samples, runs: int | None, limits: StressLimits) -> HotRun:
    """FAIL where P99/P50 or the slowdown is over its limit, or the device went off before all runs
    were done (`runs` is None where their number wasn't given).

    Raises:
        DeviceError: the device kept no heat history, or gave no sample.
    """
    heat = samples.heat
    if heat is None or samples.latencies_ns.size == 0:
        raise DeviceError(
            "the device gave no hot samples",
            hint="only a device whose temperature is known can be stressed",
        )
    latency = summarize_array(samples.latencies_ns)
    calm = summarize_array(heat.unthrottled_ns[: latency.runs])
    slowdown = Fraction(latency.p50_ns, calm.p50_ns)
    checks = [
        _tail_check(latency, heat, limits),
        _shutdown_check(latency, heat, runs),
    ]
    if limits.max_slowdown is not None:
        checks.append(_slowdown_check(slowdown, heat, limits.max_slowdown))
    values, counts = np.unique(heat.clock_dividers, return_counts=True)
    by_divider = dict(zip(values.tolist(), counts.tolist(), strict=True))
    throttled = latency.runs - by_divider.get(1.0, 0)
    peak = heat.peak_celsius
    failed = tuple(check.message for check in checks if not check.passed)
    summary = (
        f"P99/P50 {ratio_text(latency.p99_over_p50)} over {latency.runs} runs from "
        f"{_degrees(heat.start_celsius)}, {throttled} of them throttled, "
        f"die at most {peak:.1f} degC, P50 {ratio_text(slowdown)} times that at full clock"
    )
    return HotRun(
        verdict=verdict_of(tuple(checks)),
        checks=tuple(checks),
        reasons=failed or (summary,),
        latency=latency,
        full_clock_p50_ns=calm.p50_ns,
        peak_celsius=peak,
        throttled_runs=throttled,
        clock_changes=int(np.count_nonzero(np.diff(heat.clock_dividers))),
        runs_by_divider=by_divider,
        shutdown_run=heat.shutdown_run,
    )


def _degrees(celsius: float) -> str:
    return f"{round(celsius, 1):g} degC"


def _clock(heat: HeatHistory) -> str:
    slowest = float(heat.clock_dividers.max())
    return f"the clock was divided by up to {slowest:.4g}" if slowest > 1 else "nothing throttled"


def _tail_check(latency: LatencySummary, heat: HeatHistory, limits: StressLimits) -> Check:
    passed = not latency.exceeds_tail(limits.max_p99_over_p50)
    figure = ratio_text(latency.p99_over_p50)
    message = (
        f"P99/P50 at {_degrees(heat.start_celsius)} is {figure}, over the limit of "
        f"{limits.max_p99_over_p50}: {_clock(heat)}; cut the energy of "
        "an inference (smaller tiles in flight, int8), cool the device, or raise "
        "`thermal_stress.max_p99_over_p50` in params.yaml"
    )
    return Check(
        "p99_over_p50", passed, figure, str(limits.max_p99_over_p50), "" if passed else message
    )


def _slowdown_check(slowdown: Fraction, heat: HeatHistory, limit: float) -> Check:
    passed = slowdown <= Fraction(str(limit))
    message = (
        f"P50 from {_degrees(heat.start_celsius)} is {ratio_text(slowdown)} times that at full "
        f"clock, over the limit of {limit}: {_clock(heat)}; cut the energy of an inference, cool "
        "the device, or raise `thermal_stress.max_slowdown` in params.yaml"
    )
    return Check("slowdown", passed, ratio_text(slowdown), str(limit), "" if passed else message)


def _shutdown_check(latency: LatencySummary, heat: HeatHistory, runs: int | None) -> Check:
    passed = heat.shutdown_run is None and (runs is None or latency.runs == runs)
    wanted = "all" if runs is None else str(runs)
    message = (
        f"the device went off in run {heat.shutdown_run} at {heat.junction_celsius[-1]:.1f} degC, "
        f"after {latency.runs} of {wanted} runs: its critical temperature was reached; cool the "
        "device or cut the energy of an inference"
    )
    return Check("all_runs", passed, str(latency.runs), wanted, "" if passed else message)
