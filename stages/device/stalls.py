"""Where every cycle of every queue went: the clock of `plan/timing.py`, with a cause for each gap.

The recurrences are `timing.py`'s own, so the times are too; a test holds the two equal. What lies
between a queue's pieces of work is cut where its cause changes, so that the segments of a queue
follow each other without gap or overlap from cycle 0 to the end of the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from stages.plan.costs import Costs, Role

NOBODY = -1
"""No queue, or no instruction."""


class Cause(IntEnum):
    """What a queue does in a segment of time; all but WORK and IDLE are stalls."""

    WORK = 0  # computes, or moves bytes
    SUBMIT = 1  # the driver submits the inference
    LAUNCH = 2  # the driver launches a group
    EVENT = 3  # the event it awaits isn't signalled: its source works
    SYNC = 4  # the event is signalled and on its way
    STRICT = 5  # a strict driver lets transfers and compute take turns
    LATENCY = 6  # the memory's and the DMA's latency, which no earlier transfer hides
    OUTSTANDING = 7  # latency that one more outstanding transfer would hide
    PORT = 8  # another channel holds the port of ddr
    BACKOFF = 9  # a thermal back-off
    IDLE = 10  # it has nothing left to do

    @property
    def word(self) -> str:
        """As reports spell it."""
        return self.name.lower()


STALLS = tuple(cause for cause in Cause if cause not in (Cause.WORK, Cause.IDLE))


@dataclass(frozen=True, slots=True)
class Segments:
    """Columns of equal length (int64), in program order within each queue: `[start, end)` cycles
    of a queue, why, the queue that it waits for (EVENT, STRICT and PORT; else `NOBODY`), and the
    instruction that works or waits (`NOBODY` while idle or submitted)."""

    queue_names: tuple[str, ...]
    queue: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    cause: NDArray[np.int64]
    source: NDArray[np.int64]
    instruction: NDArray[np.int64]
    total_cycles: int

    @property
    def cycles(self) -> NDArray[np.int64]:
        """The length of each."""
        return self.end - self.start


def attribute(costs: Costs, divider: int = 1) -> Segments:
    """Every cycle of one run without weather; `divider` divides the clock of compute."""
    replay = _Replay(costs, divider)
    replay.run()
    return replay.segments()


@dataclass(slots=True)
class _Replay:
    """One pass in program order; `reached[queue]` is where its segments end."""

    costs: Costs
    divider: int
    rows: list[tuple[int, int, int, int, int, int]] = field(init=False, default_factory=list)
    reached: list[int] = field(init=False)
    free: list[int] = field(init=False)
    moved: list[list[int]] = field(init=False)
    signalled: dict[int, tuple[int, int]] = field(init=False, default_factory=dict)
    port_free: tuple[int, int] = field(init=False)
    compute_idle: tuple[int, int] = field(init=False)
    transfers_idle: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        submit, queues = self.costs.submit_cycles, len(self.costs.queue_names)
        self.free = [submit] * queues
        self.moved = [[submit] * self.costs.outstanding for _ in range(queues)]
        self.port_free = self.compute_idle = self.transfers_idle = (submit, NOBODY)
        self.reached = [0] * queues
        for queue in set(self.costs.queues):
            self._fill(queue, submit, Cause.SUBMIT, NOBODY, NOBODY)

    def run(self) -> None:
        """Settle every time."""
        for index, (role, queue) in enumerate(
            zip(self.costs.roles, self.costs.queues, strict=True)
        ):
            if role is Role.TRANSFER:
                self._transfer(index, queue)
            elif role is Role.WAIT:
                self._wait(index, queue)
            elif role is Role.SIGNAL:
                end = max(self.free[queue], self.moved[queue][-1])
                self.signalled[self.costs.events[index]] = (end, queue)
            else:
                self._compute(index, queue, role)

    def segments(self) -> Segments:
        """What was found, idle time at the end included."""
        last = [channel[-1] for channel in self.moved]
        total = max(*self.free, *last, self.costs.submit_cycles)
        for queue in range(len(self.reached)):
            self._fill(queue, total, Cause.IDLE, NOBODY, NOBODY)
        table = np.array(self.rows, dtype=np.int64).reshape(-1, 6).T
        queues, starts, ends, causes, sources, instructions = table
        names = self.costs.queue_names
        return Segments(names, queues, starts, ends, causes, sources, instructions, total)

    def _fill(self, queue: int, end: int, cause: Cause, source: int, index: int) -> None:
        """The queue's time up to `end` has this cause, as far as it has none yet."""
        start = self.reached[queue]
        if start < end:
            self.rows.append((queue, start, end, cause, source, index))
            self.reached[queue] = end

    def _wait(self, index: int, queue: int) -> None:
        start = self.free[queue]
        end, source = self.signalled[self.costs.events[index]]
        if end > start:
            self._fill(queue, end, Cause.EVENT, source, index)
            start = end + self.costs.event_cycles
            self._fill(queue, start, Cause.SYNC, source, index)
        self.free[queue] = start

    def _compute(self, index: int, queue: int, role: Role) -> None:
        costs, start = self.costs, self.free[queue]
        launch, cycles = costs.launch[index], costs.cycles[index]
        if role is Role.COMPUTE:
            cycles *= self.divider
            if costs.strict and start < self.transfers_idle[0]:
                start, source = self.transfers_idle
                self._fill(queue, start, Cause.STRICT, source, index)
        end = start + launch + cycles
        self._fill(queue, start + launch, Cause.LAUNCH, NOBODY, index)
        backs_off = role is Role.BACKOFF
        self._fill(queue, end, Cause.BACKOFF if backs_off else Cause.WORK, NOBODY, index)
        if role is Role.COMPUTE and end > self.compute_idle[0]:
            self.compute_idle = (end, queue)
        self.free[queue] = end

    def _transfer(self, index: int, queue: int) -> None:
        """Issued when its queue comes to it, the driver allows it, and the channel has room; each
        of these that came too late has its part of the gap since the channel's last transfer."""
        costs, channel = self.costs, self.moved[queue]
        allowed = self.free[queue]
        if costs.strict and allowed < self.compute_idle[0]:
            allowed, source = self.compute_idle
            self._fill(queue, allowed, Cause.STRICT, source, index)
        latency, port = costs.latency[index], costs.port[index]
        room = channel[-costs.outstanding]
        launch = costs.launch[index]
        ready = max(allowed, room) + launch + latency
        self._fill(queue, allowed + launch, Cause.LAUNCH, NOBODY, index)
        self._fill(queue, allowed + launch + latency, Cause.LATENCY, NOBODY, index)
        self._fill(queue, ready, Cause.OUTSTANDING, NOBODY, index)
        start = max(ready, channel[-1])
        if port:
            if start < self.port_free[0]:
                start, source = self.port_free
                self._fill(queue, start, Cause.PORT, source, index)
            self.port_free = (start + port, queue)
        end = start + costs.cycles[index]
        self._fill(queue, end, Cause.WORK, NOBODY, index)
        channel.append(end)
        if end > self.transfers_idle[0]:
            self.transfers_idle = (end, queue)


def by_queue(segments: Segments) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """The numbers of each queue's segments, in order of time."""
    for number, name in enumerate(segments.queue_names):
        yield name, np.flatnonzero(segments.queue == number)
