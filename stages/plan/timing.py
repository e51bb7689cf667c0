"""When each instruction of a plan runs: integer cycles of the nominal clock.

Each queue runs its own instructions in order. Program order is a topological order, so one pass
settles every time:

    WAIT_EVENT    the queue goes on when the event was signalled, `event_cycles` later if it waited
    SIGNAL_EVENT  signals when everything before it in the queue has ended
    compute       start = queue free; end = start + cycles x divider + launch
    host          the same; the clock divider doesn't slow it
    transfer      issue = launch + max(the queue's last wait, end of transfer `outstanding` back)
                  start = max(issue + latency, end of the channel's last transfer, DDR port free)
                  end = start + channel cycles; the DDR port is free port cycles after start

Under `SyncMode.STRICT` a transfer isn't issued before the compute so far has ended, nor does
compute start before the transfers so far have. An inference begins with the driver's submission.

The compiler searches with these times, and the simulated device adds weather and heat to them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.hardware.spec import HardwareSpec
from stages.plan.costs import CacheUses, Costs, Role, instruction_costs
from stages.plan.instructions import Plan
from stages.plan.weathered import Cycles, Weather, weathered_run

__all__ = ["Timing", "Weather", "instruction_costs", "plan_cycles", "run_costs", "simulate"]


@dataclass(frozen=True, slots=True)
class Timing:
    """Cycles of each run (`total_cycles`: int64[runs]), submission included.

    `starts` and `ends` (int64[instructions]) are the spans of the first run. A transfer's span
    is the time that it holds its channel, and a wait's the time that it blocks.
    """

    total_cycles: Cycles
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


def plan_cycles(plan: Plan, spec: HardwareSpec, uses: CacheUses | None = None) -> int:
    """Jitter-free cycles of one inference at the nominal clock; `uses` as in
    `instruction_costs`."""
    return _calm_run(instruction_costs(plan, spec, uses), 1, [], [])


def simulate(
    plan: Plan, spec: HardwareSpec, weather: Weather | None = None, compute_divider: int = 1
) -> Timing:
    """Time a plan, once without weather or once for each run of it.

    `compute_divider` divides the clock of the compute engines (thermal throttling).
    """
    return run_costs(instruction_costs(plan, spec), weather, compute_divider)


def run_costs(costs: Costs, weather: Weather | None = None, compute_divider: int = 1) -> Timing:
    """`simulate` for a plan that is already priced."""
    starts: list[int] = []
    ends: list[int] = []
    if weather is None:
        totals = np.array([_calm_run(costs, compute_divider, starts, ends)], dtype=np.int64)
    else:
        totals = weathered_run(costs, weather, compute_divider, starts, ends)
    return Timing(totals, np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64))


def _calm_run(costs: Costs, divider: int, starts: list[int], ends: list[int]) -> int:
    """One run without weather, on plain integers; appends each span and returns the total.

    One loop without helpers: the compiler's search runs it thousands of times.
    """
    submit, event_cycles, outstanding = costs.submit_cycles, costs.event_cycles, costs.outstanding
    strict = costs.strict
    transfer_role, compute_role = Role.TRANSFER, Role.COMPUTE
    wait_role, signal_role = Role.WAIT, Role.SIGNAL
    # free: when a compute queue is free, or a transfer queue may issue.
    free = [submit] * len(costs.queue_names)
    # moved: ends of a channel's transfers, after `outstanding` from before any.
    moved: list[list[int]] = [[submit] * outstanding for _ in costs.queue_names]
    signalled: dict[int, int] = {}
    port_free = compute_idle = transfers_idle = submit
    columns = zip(
        costs.roles,
        costs.queues,
        costs.cycles,
        costs.launch,
        costs.latency,
        costs.port,
        costs.events,
        strict=True,
    )
    for role, queue, cycles, launch, latency, port, event in columns:
        start = free[queue]
        if role is transfer_role:
            channel = moved[queue]
            issue = max(start, channel[-outstanding])
            if strict and issue < compute_idle:
                issue = compute_idle
            start = max(issue + launch + latency, channel[-1])
            if port:
                if start < port_free:
                    start = port_free
                port_free = start + port
            end = start + cycles
            channel.append(end)
            if end > transfers_idle:
                transfers_idle = end
        elif role is wait_role:
            end = signalled[event]
            end = end + event_cycles if end > start else start
            free[queue] = end
        elif role is signal_role:
            start = end = max(start, moved[queue][-1])
            signalled[event] = end
        else:
            if role is compute_role:
                if strict and start < transfers_idle:
                    start = transfers_idle
                end = start + cycles * divider + launch
                if end > compute_idle:
                    compute_idle = end
            else:
                end = start + cycles + launch
            free[queue] = end
        starts.append(start)
        ends.append(end)
    return max(max(free, default=submit), *(channel[-1] for channel in moved), submit)
