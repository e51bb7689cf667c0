"""Groups woven together: an order of a program's steps in which its engines wait less for another.

The emitted program goes group by group, so a group on the vector unit begins when the tensor core
is done with the one before it. Here every step is free to start once what it reads is there. Which
of several goes first is found by scheduling the program backwards from its end, each engine one
step at a time, and then forwards, those first that had to start first in the backward schedule;
then once more with what that gave (forward-backward improvement after Li and Willis, *An iterative
scheduling technique for resource-constrained project scheduling*, EJOR 56, 1992). The longest path
alone, the usual rank of list scheduling, doesn't know that steps queue up before an engine.

Memory plays no part here, and transfers have a latency only: the list schedule that follows takes
compute in the order found, places buffers, and finds out whether there is room.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from stages.compiler.emit.program import Written
from stages.compiler.schedule.attempts import Freedom
from stages.compiler.schedule.clock import Clock
from stages.compiler.schedule.dependencies import Dependencies, Lane
from stages.recipe.decisions import Lifetime

_ROUNDS = 2

Edges = Sequence[Sequence[int]]


def woven_order(
    written: Sequence[Written],
    found: Dependencies,
    clock: Clock,
    freedom: Freedom,
    large_bytes: int,
) -> list[int]:
    """The numbers of a program's instructions in a better order that keeps all dependencies, of
    which `found` holds every one. Slots of `large_bytes` or more are filled one after the
    other."""
    after = [list(items) for items in found.predecessors]
    if freedom is Freedom.GROUPS:
        _chain(written, clock, after)
    _chain_sums(found, after)
    _chain_large(found, after, large_bytes)
    before = _turned(after)
    lengths = _lengths(written, clock)
    rank = list(range(0, -len(lengths), -1))
    starts: list[int] = []
    for _ in range(_ROUNDS):
        backward = _Run(clock, lengths, before, after, rank).starts()
        latest = [-start - length for start, length in zip(backward, lengths, strict=True)]
        starts = _Run(clock, lengths, after, before, latest).starts()
        rank = [-start - length for start, length in zip(starts, lengths, strict=True)]
    return _in_order(found, clock, starts, after, before)


def _chain(written: Sequence[Written], clock: Clock, after: list[list[int]]) -> None:
    """Let the steps of each group keep their order."""
    last: dict[str, int] = {}
    for number, item in enumerate(written):
        if clock.is_transfer[number]:
            continue
        group = item.instruction.group
        if group in last:
            after[number].append(last[group])
        last[group] = number


def _chain_sums(found: Dependencies, after: list[list[int]]) -> None:
    """Let a sum that is made in several steps be complete before the next one in its slot begins:
    sums are large, and hold their bytes all the while."""
    last: dict[str, int] = {}
    for use in found.buffers:
        if use.is_slot and len(use.writers) > 1 and found.lanes[use.writers[0]] < Lane.STORE:
            if use.place.name in last:
                after[use.writers[0]].append(last[use.place.name])
            last[use.place.name] = use.writers[-1]


def _chain_large(found: Dependencies, after: list[list[int]], large_bytes: int) -> None:
    """Let all that read a large slot be done before it is filled anew: two of them at a time leave
    no room for anything else."""
    large = {
        number
        for number, use in enumerate(found.buffers)
        if use.is_slot and use.size_bytes >= large_bytes
    }
    touching: dict[int, list[int]] = {number: [] for number in sorted(large)}
    for number, buffers in enumerate(found.buffers_of):
        for buffer in large.intersection(buffers):
            touching[buffer].append(number)
    last: dict[str, list[int]] = {}
    for buffer, numbers in touching.items():
        use = found.buffers[buffer]
        for writer in use.writers:
            after[writer].extend(last.get(use.place.name, ()))
        last[use.place.name] = [number for number in numbers if number not in use.writers]


def _turned(after: Edges) -> list[list[int]]:
    before: list[list[int]] = [[] for _ in after]
    for number, items in enumerate(after):
        for other in items:
            before[other].append(number)
    return before


def _lengths(written: Sequence[Written], clock: Clock) -> list[int]:
    """Cycles from an instruction's start to its end; constants count as loaded beforehand."""
    found = []
    for number, item in enumerate(written):
        cycles, latency, _ = clock.prices[number]
        if not clock.is_transfer[number]:
            found.append(cycles + clock.launches[number])
        elif item.reads[0].lifetime is Lifetime.WEIGHTS:
            found.append(0)
        else:
            found.append(cycles + latency)
    return found


@dataclass(slots=True)
class _Run:
    """One list schedule: engines take the instruction of the least rank among those that could
    start, transfers start at once. `after` are the predecessors, `before` the successors."""

    clock: Clock
    lengths: Sequence[int]
    after: Edges
    before: Edges
    rank: Sequence[int]
    missing: list[int] = field(init=False)
    ready: list[int] = field(init=False)
    found: list[int] = field(init=False)
    free: list[int] = field(init=False)
    waiting: list[list[tuple[int, int]]] = field(init=False)
    startable: list[list[tuple[int, int]]] = field(init=False)

    def __post_init__(self) -> None:
        count, queues = len(self.lengths), len(self.clock.queues)
        self.missing = [len(items) for items in self.after]
        self.ready = [0] * count
        self.found = [0] * count
        self.free = [0] * queues
        self.waiting = [[] for _ in range(queues)]
        self.startable = [[] for _ in range(queues)]

    def starts(self) -> list[int]:
        """When each instruction starts."""
        self._offer([number for number, left in enumerate(self.missing) if not left])
        while (queue := self._next_queue()) is not None:
            _, number = heapq.heappop(self.startable[queue])
            start = max(self.free[queue], self.ready[number])
            self.found[number] = start
            self.free[queue] = start + self.lengths[number]
            self._offer(self._ended(number, self.free[queue]))
        return self.found

    def _offer(self, ready: list[int]) -> None:
        """Put instructions before their engines; transfers end at once, and set others free."""
        while ready:
            number = ready.pop()
            if self.clock.is_transfer[number]:
                self.found[number] = self.ready[number]
                ready += self._ended(number, self.ready[number] + self.lengths[number])
            else:
                queue = self.clock.queue_of[number]
                heapq.heappush(self.waiting[queue], (self.ready[number], number))

    def _ended(self, number: int, end: int) -> list[int]:
        """What is ready now that an instruction has ended."""
        free = []
        for other in self.before[number]:
            self.missing[other] -= 1
            self.ready[other] = max(self.ready[other], end)
            if not self.missing[other]:
                free.append(other)
        return free

    def _next_queue(self) -> int | None:
        """The engine that can start something first, with what it could start by then."""
        best: tuple[int, int] | None = None
        for queue, waiting in enumerate(self.waiting):
            time = self.free[queue]
            if not self.startable[queue] and waiting and waiting[0][0] > time:
                time = waiting[0][0]
            elif not self.startable[queue] and not waiting:
                continue
            if best is None or (time, queue) < best:
                best = (time, queue)
        if best is None:
            return None
        time, queue = best
        waiting = self.waiting[queue]
        while waiting and waiting[0][0] <= time:
            _, number = heapq.heappop(waiting)
            heapq.heappush(self.startable[queue], (self.rank[number], number))
        return queue


def _in_order(
    found: Dependencies, clock: Clock, starts: Sequence[int], after: Edges, before: Edges
) -> list[int]:
    """Instructions by their starts; loads right before what needs them first, stores and moves
    right behind what they wait for."""
    compute = [number for number in range(len(starts)) if not clock.is_transfer[number]]
    compute.sort(key=lambda number: (starts[number], number))
    place = dict(zip(compute, range(0, 4 * len(compute), 4), strict=True))
    last = 4 * len(compute)
    for number in reversed(range(len(starts))):
        if found.lanes[number] is Lane.LOAD:
            places = [place[other] for other in before[number] if other in place]
            place[number] = min(places, default=last) - 2
    for number in range(len(starts)):
        if number not in place:
            places = [place[other] for other in after[number] if other in place]
            place[number] = max(places, default=-4) + 1
    missing = [len(items) for items in after]
    pending = [(place[number], number) for number, left in enumerate(missing) if not left]
    heapq.heapify(pending)
    order = []
    while pending:
        _, number = heapq.heappop(pending)
        order.append(number)
        for other in before[number]:
            missing[other] -= 1
            if not missing[other]:
                heapq.heappush(pending, (place[other], other))
    return order
