"""List scheduling: of the instructions that could come next, the one that starts first is taken.

Buffers get their addresses in the order in which the program first touches them, each as soon as
the SRAM has room; so loads run ahead of the arithmetic as far as the memory lets them, across the
borders of groups, and what must come first is never locked out by what comes later. A buffer's
bytes are free for others once the last instruction that touches it has been taken; who gets them
waits for it.

Within a lane of compute, stores or moves, program order is kept; only loads overtake each other
(list scheduling after Graham, 1966; renaming after Tomasulo, 1967).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from stages.compiler.schedule.clock import Clock
from stages.compiler.schedule.dependencies import BufferUse, Dependencies, Lane
from stages.compiler.schedule.outlook import Outlook
from stages.compiler.schedule.pool import Corner, Pool, Span, pools_of
from stages.compiler.support import placement_alignment
from stages.compiler.tiling.streams import align
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import SRAM

_LARGE = 16
"""A buffer of one part in so many of the SRAM, or more, is large."""
_LONG = 64
"""A buffer that is touched over as many instructions, or more, lives long."""


class Packing(Enum):
    """How buffers are spread over the SRAM: each where bytes are free the soonest; or the large and
    short-lived ones from its beginning and the others from its end, of those that one step of
    compute needs the largest first, with room left for large ones to come."""

    SOONEST = "soonest"
    SORTED = "sorted"


class Stuck(Exception):  # noqa: N818
    """No room for the buffer that is next, and nothing left to take that would make some."""

    def __init__(self, buffer: int) -> None:
        super().__init__(f"buffer {buffer} finds no place")
        self.buffer = buffer


@dataclass(frozen=True, slots=True)
class Ordering:
    """The order in which instructions are taken, all that each must wait for, and the address of
    each buffer."""

    order: list[int]
    predecessors: list[list[int]]
    addresses: list[int]


@dataclass(slots=True)
class Scheduler:
    """Orders one program. `pinned` slots keep the addresses that they have."""

    found: Dependencies
    clock: Clock
    spec: HardwareSpec
    pinned: frozenset[int]
    packing: Packing = Packing.SOONEST
    order: list[int] = field(default_factory=list)
    missing: list[int] = field(init=False)
    ready: list[int] = field(init=False)
    ends: list[int] = field(init=False)
    after: list[list[int]] = field(init=False)
    successors: list[list[int]] = field(init=False)
    addresses: list[int] = field(init=False)
    left: list[int] = field(init=False)
    last_by_queue: list[dict[int, int]] = field(init=False)
    pools: dict[str, Pool] = field(init=False)
    queue: deque[int] = field(init=False)
    fixed: deque[int] = field(init=False)
    alignment: int = field(init=False)
    lanes: list[deque[int]] = field(init=False)
    outlook: Outlook = field(init=False)
    loads: list[int] = field(default_factory=list)
    now: int = 0

    def __post_init__(self) -> None:
        found = self.found
        count = len(found.lanes)
        self.missing = [len(items) for items in found.predecessors]
        self.ready = [0] * count
        self.ends = [0] * count
        self.after = [[*items] for items in found.predecessors]
        self.successors = found.successors
        buffers = found.buffers
        self.addresses = [use.place.address for use in buffers]
        self.left = [use.touches for use in buffers]
        self.last_by_queue = [{} for _ in buffers]
        self.alignment = placement_alignment(self.spec.sram)
        self.pools = pools_of(self.spec)
        managed = found.managed
        if self.packing is Packing.SORTED:
            managed = self._by_step(managed)
        self.queue = deque(managed)
        self.outlook = self._outlook(managed)
        self.fixed = deque(
            number
            for number in managed
            if buffers[number].place.memory == SRAM and not self._is_movable(number)
        )
        for number in managed:
            for writer in buffers[number].writers:
                self.missing[writer] += 1
        self.lanes = [deque() for _ in Lane]
        for number, lane in enumerate(found.lanes):
            if lane is not Lane.LOAD:
                self.lanes[lane].append(number)
            elif not self.missing[number]:
                self.loads.append(number)

    def _by_step(self, managed: list[int]) -> list[int]:
        """Buffers in the order of the steps of compute that need them first, the largest first:
        all those of a step must have a place before it can be taken."""
        found, count = self.found, len(self.found.lanes)
        step = list(range(count))
        for number, lane in enumerate(found.lanes):
            if lane is Lane.LOAD:
                step[number] = min(found.successors[number], default=number)
        uses = found.buffers
        return sorted(
            managed,
            key=lambda n: (step[uses[n].first], -uses[n].size_bytes, uses[n].first, n),
        )

    def _outlook(self, managed: Sequence[int]) -> Outlook:
        is_sorted = self.packing is Packing.SORTED
        mine = [n for n in managed if is_sorted and self.found.buffers[n].place.memory == SRAM]
        sram = self.spec.sram
        base = align(sram.reserved_bytes, self.alignment)
        return Outlook(self.found.buffers, mine, base, sram.size_bytes, self.alignment)

    def run(self) -> Ordering:
        """Take all instructions.

        Raises:
            Stuck: the SRAM is so cut up that the next buffer finds no place.
        """
        count = len(self.found.lanes)
        self._allocate()
        while len(self.order) < count:
            chosen = self._next()
            if chosen is None:
                self.outlook.forget(self.queue[0])
                self._allocate()
                chosen = self._next()
            if chosen is None:
                raise Stuck(self.queue[0])
            if self._take(chosen):
                self._allocate()
        return Ordering(self.order, self.after, self.addresses)

    def _next(self) -> int | None:
        best: tuple[int, int] | None = None
        missing, ready, clock = self.missing, self.ready, self.clock
        for lane in self.lanes:
            if lane and not missing[lane[0]]:
                rank = (clock.start(lane[0], ready[lane[0]]), lane[0])
                if best is None or rank < best:
                    best = rank
        start = clock.start
        for number in self.loads:
            rank = (start(number, ready[number]), number)
            if best is None or rank < best:
                best = rank
        if best is None:
            return None
        self.now = best[0]
        return best[1]

    def _take(self, number: int) -> bool:
        """Take an instruction; returns whether it frees a buffer."""
        lane, queue = self.found.lanes[number], self.clock.queue_of[number]
        if lane is Lane.LOAD:
            self.loads.remove(number)
        else:
            self.lanes[lane].popleft()
        end = self.ends[number] = self.clock.run(number, self.ready[number])
        self.order.append(number)
        for other in self.successors[number]:
            self._settle(other, end, queue)
        freed = False
        for buffer in {*self.found.buffers_of[number]}:
            if buffer < 0:
                continue
            self.left[buffer] -= 1
            self.last_by_queue[buffer][queue] = number
            if not self.left[buffer]:
                freed |= self._release(buffer)
        return freed

    def _settle(self, number: int, end: int, queue: int) -> None:
        """One thing less that an instruction waits for."""
        left = self.missing[number] = self.missing[number] - 1
        if end > self.ready[number] and queue != self.clock.queue_of[number]:
            self.ready[number] = end
        if not left and self.found.lanes[number] is Lane.LOAD:
            self.loads.append(number)

    def _release(self, buffer: int) -> bool:
        use = self.found.buffers[buffer]
        if not use.is_managed:
            return False
        nodes = tuple(self.last_by_queue[buffer].values())
        time = max(self.ends[node] for node in nodes)
        self.outlook.lying.pop(buffer, None)
        self.pools[use.place.memory].release(self.addresses[buffer], time, nodes)
        return True

    def _allocate(self) -> None:
        """Give addresses to the buffers that are next, while there is room."""
        while self.queue:
            buffer = self.queue[0]
            use = self.found.buffers[buffer]
            pool = self.pools[use.place.memory]
            size = use.taken_bytes(self.alignment)
            if self._is_movable(buffer):
                corner = self._corner(use, size)
                avoided = sorted([*self._avoided(use), *self.outlook.spared(buffer)])
                spot = pool.find(size, self._floor(use), avoided, corner)
            else:
                spot = pool.spot_at(use.place.address, size)
            if spot is None:
                return
            if self.fixed and buffer == self.fixed[0]:
                self.fixed.popleft()
            self.queue.popleft()
            pool.take(spot.address, size)
            self.addresses[buffer] = spot.address
            if use.place.memory == SRAM:
                self.outlook.lying[buffer] = spot.address, spot.address + size
            for writer in use.writers:
                self.after[writer].extend(spot.nodes)
                for node in spot.nodes:
                    if self.clock.queue_of[node] != self.clock.queue_of[writer]:
                        self.ready[writer] = max(self.ready[writer], self.ends[node])
                self._settle(writer, 0, self.clock.queue_of[writer])

    def _corner(self, use: BufferUse, size_bytes: int) -> Corner:
        if self.packing is Packing.SOONEST:
            return Corner.SOONEST
        is_large = size_bytes * _LARGE >= self.spec.sram.usable_bytes
        return Corner.LOW if is_large and use.last - use.first < _LONG else Corner.HIGH

    def _floor(self, use: BufferUse) -> int:
        """A time before which nobody will write a slot: its queue is busy until then."""
        return max(self.now, self.clock.busy_until(use.first))

    def _is_movable(self, buffer: int) -> bool:
        return self.found.buffers[buffer].is_slot and buffer not in self.pinned

    def _avoided(self, use: BufferUse) -> list[Span]:
        """Bytes that buffers with an address of their own take while this one lives."""
        spans = []
        for number in self.fixed:
            other = self.found.buffers[number]
            if other.first > use.last:
                break
            start = other.place.address
            spans.append((start, start + other.taken_bytes(self.alignment)))
        return sorted(spans)
