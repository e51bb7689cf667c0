"""Buffers of an ordered program moved together, where they lie over more bytes than they need.

The list schedule takes for each buffer the bytes that are free the soonest, wherever they are, so a
program that doesn't fill the SRAM is strewn over it. The order stays; addresses are planned anew,
and with them what each instruction must wait for. Bytes change hands only where the next owner
starts after the last one ended, so that nobody waits for room, and never where it would cost time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stages.compiler.memory.offsets import ENOUGH
from stages.compiler.schedule.clock import Clock
from stages.compiler.schedule.dependencies import Dependencies
from stages.compiler.schedule.ordering import Ordering
from stages.compiler.schedule.pool import pools_of
from stages.compiler.support import placement_alignment
from stages.compiler.tiling.streams import align
from stages.hardware.spec import HardwareSpec
from stages.memory_planner.problem import Buffer, Problem, max_live_bytes
from stages.memory_planner.solution import Solution
from stages.memory_planner.solver import solve

_MOST_BUFFERS = 3_000
_STEPS = 600

Lives = Mapping[int, tuple[int, int]]
"""For each buffer the place in the order of its first touch, and one past that of its last."""


@dataclass(frozen=True, slots=True)
class _Times:
    """For each place in the order, the latest start up to there and the end; and the last end."""

    starts: Sequence[int]
    ends: Sequence[int]
    last: int


def compacted(
    found: Dependencies, ordering: Ordering, clock: Clock, spec: HardwareSpec
) -> Ordering:
    """The ordering with a lower SRAM peak, or as it was."""
    lives = _lives(found, ordering.order)
    mine = [number for number in lives if found.buffers[number].place.memory == spec.sram.name]
    if not mine or len(mine) > _MOST_BUFFERS:
        return ordering
    base = align(spec.sram.reserved_bytes, placement_alignment(spec.sram))
    buffers = tuple(_buffer(number, found, lives, spec) for number in mine)
    peak = max(ordering.addresses[number] + found.buffers[number].size_bytes for number in mine)
    capacity = int(max_live_bytes(buffers) * ENOUGH)
    if peak - base <= capacity:
        return ordering
    times = _timed(ordering, clock)
    freed = _freed(found, ordering.order, times)
    patient = tuple(_patient(item, freed[int(item.name)], times) for item in buffers)
    capacity = max(capacity, max_live_bytes(patient))
    answer = solve(Problem(patient, capacity), _STEPS) if base + capacity < peak else None
    if not isinstance(answer, Solution):
        return ordering
    addresses = list(ordering.addresses)
    for number in mine:
        addresses[number] = base + answer.offsets[str(number)]
    after = _predecessors(found, ordering.order, lives, addresses, clock, spec)
    moved = replace(ordering, addresses=addresses, predecessors=after)
    return moved if _timed(moved, clock).last <= times.last else ordering


def ended(ordering: Ordering, clock: Clock) -> int:
    """When the last instruction of an ordering ends."""
    return _timed(ordering, clock).last


def _patient(buffer: Buffer, free: int, times: _Times) -> Buffer:
    """A buffer that lives until what starts next starts at `free` or later."""
    return replace(buffer, upper=max(buffer.upper, bisect_left(times.starts, free)))


def _freed(found: Dependencies, order: Sequence[int], times: _Times) -> dict[int, int]:
    """When the last instruction that touches each buffer ends."""
    freed: dict[int, int] = {}
    for number, end in zip(order, times.ends, strict=True):
        for buffer in found.buffers_of[number]:
            freed[buffer] = max(freed.get(buffer, 0), end)
    return freed


def _lives(found: Dependencies, order: Sequence[int]) -> dict[int, tuple[int, int]]:
    lives: dict[int, tuple[int, int]] = {}
    managed = {*found.managed}
    for place, number in enumerate(order):
        for buffer in found.buffers_of[number]:
            if buffer in managed:
                first, _ = lives.get(buffer, (place, place))
                lives[buffer] = (first, place + 1)
    return lives


def _buffer(number: int, found: Dependencies, lives: Lives, spec: HardwareSpec) -> Buffer:
    """A buffer for the planner: residents stay where the recipe put them."""
    use, alignment = found.buffers[number], placement_alignment(spec.sram)
    fixed = None if use.is_slot else use.place.address - align(spec.sram.reserved_bytes, alignment)
    return Buffer(str(number), *lives[number], use.taken_bytes(alignment), alignment, fixed)


def _predecessors(
    found: Dependencies,
    order: Sequence[int],
    lives: Lives,
    addresses: Sequence[int],
    clock: Clock,
    spec: HardwareSpec,
) -> list[list[int]]:
    """What each instruction waits for: what it reads, and whoever had its bytes before."""
    after = [list(items) for items in found.predecessors]
    pools, alignment = pools_of(spec), placement_alignment(spec.sram)
    last_by_queue: dict[int, dict[int, int]] = defaultdict(dict)
    for place, number in enumerate(order):
        touched = [buffer for buffer in dict.fromkeys(found.buffers_of[number]) if buffer in lives]
        for buffer in touched:
            use = found.buffers[buffer]
            pool = pools[use.place.memory]
            if lives[buffer][0] == place:
                size = use.taken_bytes(alignment)
                spot = pool.spot_at(addresses[buffer], size)
                assert spot is not None, "two live buffers share bytes"
                pool.take(spot.address, size)
                for writer in use.writers:
                    after[writer].extend(spot.nodes)
            last_by_queue[buffer][clock.queue_of[number]] = number
        for buffer in touched:
            if lives[buffer][1] == place + 1:
                nodes = tuple(last_by_queue[buffer].values())
                pools[found.buffers[buffer].place.memory].release(addresses[buffer], 0, nodes)
    return after


def _timed(ordering: Ordering, clock: Clock) -> _Times:
    """An ordering on a clock of its own."""
    clock = clock.fresh()
    ended = [0] * len(ordering.order)
    starts: list[int] = []
    latest = 0
    for number in ordering.order:
        queue = clock.queue_of[number]
        ready = max(
            (ended[one] for one in ordering.predecessors[number] if clock.queue_of[one] != queue),
            default=0,
        )
        latest = max(latest, clock.start(number, ready))
        starts.append(latest)
        ended[number] = clock.run(number, ready)
    return _Times(starts, [ended[number] for number in ordering.order], max(ended, default=0))
