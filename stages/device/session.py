"""Runs one after another on a die that heats up: latencies, temperatures and the clock."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stages.device.power import busy_watts
from stages.device.samples import HeatHistory, Samples
from stages.device.thermal import Die
from stages.device.weather import Climate
from stages.hardware.cost import NANOSECONDS_PER_SECOND
from stages.hardware.spec import JitterCause
from stages.plan.costs import Costs, Role
from stages.plan.timing import run_costs

_HEADROOM_PERCENT = 125
_TOUCHED = {JitterCause.DRAM_REFRESH: Role.TRANSFER, JitterCause.VOLTAGE_DROOP: Role.COMPUTE}


@dataclass(slots=True)
class Latencies:
    """Latencies (int64[runs], ns) of all runs of a session at each clock divider.

    A divider is simulated when it first occurs, for all runs at once, under the same weather.
    """

    costs: Costs
    climate: Climate
    runs: int
    _known: dict[int, NDArray[np.int64]] = field(init=False, default_factory=dict)

    def at(self, divider: int) -> NDArray[np.int64]:
        """Latencies of all runs were the clock divided throughout."""
        if divider not in self._known:
            cycles = weathered_cycles(self.costs, self.climate, self.runs, divider)
            clock = self.climate.spec.clock_hz
            self._known[divider] = np.array(
                [max(1, -(-count * NANOSECONDS_PER_SECOND // clock)) for count in cycles.tolist()],
                dtype=np.int64,
            )
        return self._known[divider]


def weathered_cycles(costs: Costs, climate: Climate, runs: int, divider: int) -> NDArray[np.int64]:
    """Cycles (int64[runs]) of each run under its weather, which reaches past the slowest."""
    calm = int(run_costs(costs, compute_divider=divider).total_cycles[0])
    horizon = calm * _HEADROOM_PERCENT // 100 + 1
    causes = {cause for cause, role in _TOUCHED.items() if role in costs.roles}
    while True:
        weather = climate.at(range(runs), horizon, {*causes, JitterCause.INTERRUPT})
        cycles = run_costs(costs, weather, divider).total_cycles
        if int(cycles.max(initial=0)) <= horizon:
            return cycles
        horizon *= 2


def run_session(latencies: Latencies, die: Die, femtojoules: int, warmup: int) -> Samples:
    """Let all runs follow each other; the first `warmup` aren't in the samples.

    A run that outlasts a poll goes on at the new clock: what is left of it scales with the ratio of
    its latencies at the two dividers.
    """
    measured = latencies.runs - warmup
    taken = np.zeros(measured, dtype=np.int64)
    celsius = np.zeros(measured, dtype=np.float64)
    dividers = np.ones(measured, dtype=np.int64)
    shutdown: int | None = None
    done = 0
    for run in range(latencies.runs):
        latency_ns, divider = _one_run(latencies, die, femtojoules, run)
        if run >= warmup:
            taken[done], celsius[done], dividers[done] = latency_ns, die.junction_celsius, divider
            done += 1
        if die.is_critical:
            shutdown = done
            break
    heat = HeatHistory(celsius[:done], dividers[:done], die.ambient_celsius, shutdown)
    return Samples(taken[:done], heat)


def _one_run(latencies: Latencies, die: Die, femtojoules: int, run: int) -> tuple[int, int]:
    """Nanoseconds that the run took, and the slowest divider in it."""
    divider = slowest = die.poll_if_due()
    whole = int(latencies.at(divider)[run])
    left, elapsed = whole, 0
    while left > 0:
        step = min(left, die.next_poll_ns - die.now_ns)
        watts = busy_watts(die.spec, femtojoules, whole, die.junction_celsius)
        die.advance(watts, step)
        left -= step
        elapsed += step
        if left > 0:
            now = die.poll_if_due()
            if now != divider:
                slower = int(latencies.at(now)[run])
                left = -(-left * slower // whole)
                divider, whole = now, slower
                slowest = max(slowest, now)
    return elapsed, slowest
