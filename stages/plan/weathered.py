"""The clock of `timing.py` for many runs at once, each with its own stalls.

The same recurrences as `timing._calm_run`, on vectors over runs; a test holds the two equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.plan.costs import Costs, Role

Cycles = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StallTable:
    """Stall cycles that one cause adds to whatever it touches.

    `cumulative[run, slot]` (int64) counts the stalls before cycle `slot << slot_shift` of a run;
    its last column holds for every later time.
    """

    cumulative: Cycles
    slot_shift: int

    @property
    def horizon_cycles(self) -> int:
        """The first cycle after which no more stalls are known."""
        return (int(self.cumulative.shape[1]) - 1) << self.slot_shift


@dataclass(frozen=True, slots=True)
class Weather:
    """What slows each class of instruction in each of `runs` runs; None where nothing does."""

    runs: int
    transfer: StallTable | None = None
    compute: StallTable | None = None
    host: StallTable | None = None


class _Stalls:
    """Looks stalls up by flat index, which numpy does twice as fast as by pairs."""

    def __init__(self, table: StallTable) -> None:
        columns = table.cumulative.shape[1]
        self.flat = np.ascontiguousarray(table.cumulative).reshape(-1)
        self.rows = np.arange(table.cumulative.shape[0], dtype=np.int64) * columns
        self.last = columns - 1
        self.shift = table.slot_shift

    def extend(self, start: Cycles, end: Cycles) -> Cycles:
        """The end of work on [start, end) once its stalls are added."""
        first = np.minimum(start >> self.shift, self.last) + self.rows
        final = np.minimum(end >> self.shift, self.last) + self.rows
        extended: Cycles = end + (self.flat.take(final) - self.flat.take(first))
        return extended


def _calm(start: Cycles, end: Cycles) -> Cycles:
    return end


def weathered_run(
    costs: Costs, weather: Weather, divider: int, starts: list[int], ends: list[int]
) -> Cycles:
    """Cycles of each run (int64[runs]); appends the spans of the first run."""
    extend_transfer = _Stalls(weather.transfer).extend if weather.transfer else _calm
    extend_compute = _Stalls(weather.compute).extend if weather.compute else _calm
    extend_host = _Stalls(weather.host).extend if weather.host else _calm
    zero = np.zeros(weather.runs, dtype=np.int64)
    submit = extend_host(zero, zero + costs.submit_cycles)
    outstanding, strict = costs.outstanding, costs.strict
    free = [submit] * len(costs.queue_names)
    moved: list[list[Cycles]] = [[submit] * outstanding for _ in costs.queue_names]
    signalled: dict[int, Cycles] = {}
    port_free = compute_idle = transfers_idle = submit
    maximum = np.maximum
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
        if role is Role.TRANSFER:
            channel = moved[queue]
            issue = maximum(start, channel[0])
            if strict:
                issue = maximum(issue, compute_idle)
            start = maximum(issue + (launch + latency), channel[-1])
            if port:
                start = maximum(start, port_free)
                port_free = extend_transfer(start, start + port)
            end = extend_transfer(start, start + cycles)
            del channel[0]  # only the last `outstanding` are kept: a vector each
            channel.append(end)
            if strict:
                transfers_idle = maximum(transfers_idle, end)
        elif role is Role.WAIT:
            end = signalled[event]
            end = np.where(end > start, end + costs.event_cycles, start)
            free[queue] = end
        elif role is Role.SIGNAL:
            start = end = maximum(start, moved[queue][-1])
            signalled[event] = end
        else:
            if role is Role.COMPUTE:
                if strict:
                    start = maximum(start, transfers_idle)
                end = extend_compute(start, start + (cycles * divider + launch))
                if strict:
                    compute_idle = maximum(compute_idle, end)
            elif role is Role.HOST:
                end = extend_host(start, start + (cycles + launch))
            else:
                end = start + (cycles + launch)
            free[queue] = end
        starts.append(int(start[0]))
        ends.append(int(end[0]))
    last = [channel[-1] for channel in moved]
    total: Cycles = maximum.reduce([*free, *last, submit])
    return total
