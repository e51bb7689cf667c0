"""Latencies of many runs at each clock of the governor, under one weather."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from stages.device.weather import TOUCHED, Climate
from stages.hardware.cost import NANOSECONDS_PER_SECOND
from stages.plan.costs import Costs, Role
from stages.plan.timing import run_costs
from stages.units import ceil_div

_HEADROOM_PERCENT = 125


@dataclass(slots=True)
class Latencies:
    """Latencies (int64[runs], ns) of the first `runs` runs, were the clock slowed throughout.

    A slowdown is simulated when it first occurs, for all runs at once, under the same weather. A
    session of more runs meets the same weather again.
    """

    costs: Costs
    climate: Climate
    runs: int
    _known: dict[Fraction, NDArray[np.int64]] = field(init=False, default_factory=dict)

    def at(self, slowdown: Fraction) -> NDArray[np.int64]:
        """At the nominal clock over `slowdown`."""
        if slowdown not in self._known:
            cycles = weathered_cycles(self.costs, self.climate, self.runs, slowdown)
            clock = self.climate.spec.clock_hz
            self._known[slowdown] = np.array(
                [
                    max(1, ceil_div(count * NANOSECONDS_PER_SECOND, clock))
                    for count in cycles.tolist()
                ],
                dtype=np.int64,
            )
        return self._known[slowdown]


def slowed(costs: Costs, slowdown: Fraction) -> Costs:
    """The costs at a slower compute clock: compute takes longer, rounded up; transfers, the host
    and the driver's overheads keep their own clocks."""
    if slowdown == 1:
        return costs
    over, under = slowdown.numerator, slowdown.denominator
    cycles = [
        ceil_div(count * over, under) if role is Role.COMPUTE else count
        for role, count in zip(costs.roles, costs.cycles, strict=True)
    ]
    return replace(costs, cycles=cycles)


def weathered_cycles(
    costs: Costs, climate: Climate, runs: int, slowdown: Fraction
) -> NDArray[np.int64]:
    """Cycles (int64[runs]) of each run under its weather, which reaches past the slowest."""
    slower = slowed(costs, slowdown)
    calm = int(run_costs(slower).total_cycles[0])
    horizon = calm * _HEADROOM_PERCENT // 100 + 1
    # the host always has work: the submission
    present = {Role.HOST, *costs.roles}
    causes = [cause for cause, role in TOUCHED.items() if role in present]
    while True:
        weather = climate.at(range(runs), horizon, causes)
        cycles = run_costs(slower, weather).total_cycles
        if int(cycles.max(initial=0)) <= horizon:
            return cycles
        horizon *= 2
