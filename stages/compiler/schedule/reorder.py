"""A program as emitted becomes the program as scheduled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from stages.compiler.emit.program import Place, Program, Written
from stages.compiler.schedule.attempts import ATTEMPTS, Attempt, ScheduledProgram
from stages.compiler.schedule.clock import Clock, Pricing, clock_of, pricing
from stages.compiler.schedule.compact import compacted
from stages.compiler.schedule.dependencies import Dependencies, Reach, dependencies
from stages.compiler.schedule.layer_by_layer import layer_by_layer
from stages.compiler.schedule.ordering import Ordering, Scheduler, Stuck
from stages.compiler.schedule.permute import permuted
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import Binding, Region

_TRIES = 8
"""Schedules that are begun before all slots are pinned, at most."""


class Order(Enum):
    """How much of the emitted order is kept: groups wait for each other, their compute keeps the
    order of the groups, or it is woven where that finds room."""

    LAYERS = "layers"
    GROUPS = "groups"
    WOVEN = "woven"


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Instructions in their final order, and for each the numbers of those that it waits for."""

    written: list[Written]
    predecessors: list[list[int]]


def scheduled(
    program: Program,
    constants: Sequence[Binding],
    queues: Sequence[str],
    spec: HardwareSpec,
    order: Order = Order.GROUPS,
    attempts: Sequence[Attempt] = ATTEMPTS,
) -> Scheduled:
    """The program in the order of a list schedule, woven in the first of the attempts that finds
    room.

    Where free bytes lie so scattered that a buffer finds no place, the slots of its stretch of the
    program are pinned to the addresses that they were emitted with, which are known to fit.
    """
    written = program.written
    instructions = [item.instruction for item in written]
    kernels = program.kernels.kernels
    clock = clock_of(instructions, kernels, constants, queues, spec)
    if order is Order.WOVEN:
        price = pricing(instructions, kernels, constants, queues, spec)
        best = _woven(written, clock, price, spec, attempts)
    else:
        best = _plain(written, clock, spec, order)
    ordering = compacted(best.found, best.ordering, best.clock, spec)
    return _rewritten(best.written, best.found, ordering)


def woven_cycles(
    program: Program,
    constants: Sequence[Binding],
    queues: Sequence[str],
    spec: HardwareSpec,
    attempts: Sequence[Attempt],
) -> dict[Attempt, int]:
    """When a program's last instruction ends in each attempt to weave it; those that find no room
    are left out. Buffers aren't moved together."""
    from stages.compiler.schedule.weaving import Weaving  # as below

    instructions = [item.instruction for item in program.written]
    kernels = program.kernels.kernels
    clock = clock_of(instructions, kernels, constants, queues, spec)
    price = pricing(instructions, kernels, constants, queues, spec)
    every = dependencies(program.written, Reach.ALL)
    return Weaving(program.written, every, clock, price, spec).ends(attempts)


def _plain(
    written: list[Written], clock: Clock, spec: HardwareSpec, order: Order
) -> ScheduledProgram:
    """The program with compute in the order of the groups, each after the other's end if need
    be."""
    found = dependencies(written)
    if order is Order.LAYERS:
        found = layer_by_layer(found, written)
    return ScheduledProgram(written, found, clock, _ordered(written, found, clock, spec))


def _woven(
    written: list[Written],
    clock: Clock,
    price: Pricing,
    spec: HardwareSpec,
    attempts: Sequence[Attempt],
) -> ScheduledProgram:
    """The program with its groups woven together; as it is where that finds no room."""
    from stages.compiler.schedule.weaving import Weaving  # most programs aren't woven

    every = dependencies(written, Reach.ALL)
    best = Weaving(written, every, clock, price, spec).first(attempts)
    if best is not None:
        return best
    plain = permuted(every, range(len(written)))
    return ScheduledProgram(written, plain, clock, _ordered(written, plain, clock, spec))


def _ordered(
    written: Sequence[Written], found: Dependencies, clock: Clock, spec: HardwareSpec
) -> Ordering:
    pinned: frozenset[int] = frozenset()
    segments: list[int] = []
    for _ in range(_TRIES):
        try:
            return Scheduler(found, clock.fresh(), spec, pinned).run()
        except Stuck as stuck:
            segments = segments or _segments(written)
            pinned |= _pins(found, segments, stuck.buffer)
    every = frozenset(number for number, use in enumerate(found.buffers) if use.is_slot)
    return Scheduler(found, clock.fresh(), spec, every).run()


def _segments(written: Sequence[Written]) -> list[int]:
    """Numbers of the stretches of a program: groups that are emitted by turns are one."""
    last = {item.instruction.group: number for number, item in enumerate(written)}
    segments, segment, end = [], 0, -1
    for number, item in enumerate(written):
        if number > end:
            segment += 1
        end = max(end, last[item.instruction.group])
        segments.append(segment)
    return segments


def _pins(found: Dependencies, segments: Sequence[int], stuck: int) -> frozenset[int]:
    """The slots of the stretch in which a buffer found no place, and of those whose slots
    take as many bytes: layers repeat."""
    sizes: dict[int, dict[str, int]] = {}
    for use in found.buffers:
        if use.is_slot:
            sizes.setdefault(segments[use.first], {})[use.place.name] = use.place.size_bytes
    full = {segment: sum(slots.values()) for segment, slots in sizes.items()}
    limit = full[segments[found.buffers[stuck].first]]
    return frozenset(
        number
        for number, use in enumerate(found.buffers)
        if use.is_slot and full[segments[use.first]] == limit
    )


def _rewritten(written: list[Written], found: Dependencies, ordering: Ordering) -> Scheduled:
    places = _places(found, ordering.addresses)
    position = {number: at for at, number in enumerate(ordering.order)}
    result, predecessors = [], []
    for number in ordering.order:
        item, buffers = written[number], found.buffers_of[number]
        count = len(item.reads)
        instruction = item.instruction
        reads = _moved(instruction.reads, item.reads, buffers[:count], places)
        writes = _moved(instruction.writes, item.writes, buffers[count:], places)
        result.append(
            Written(
                instruction.touching(reads, writes),
                _placed(item.reads, buffers[:count], places),
                _placed(item.writes, buffers[count:], places),
            )
        )
        predecessors.append(sorted({position[other] for other in ordering.predecessors[number]}))
    return Scheduled(result, predecessors)


def _places(found: Dependencies, addresses: Sequence[int]) -> list[Place]:
    """The place of each buffer; fillings of one slot are numbered."""
    places: list[Place] = []
    counts: dict[str, int] = {}
    for use, address in zip(found.buffers, addresses, strict=True):
        place = use.place
        if use.is_slot:
            number = counts[place.name] = counts.get(place.name, -1) + 1
            name = f"{place.name}.{number}"
            place = Place(name, place.memory, address, use.size_bytes, place.lifetime, is_slot=True)
        places.append(place)
    return places


def _placed(
    old: Sequence[Place], buffers: Sequence[int], places: Sequence[Place]
) -> tuple[Place, ...]:
    pairs = zip(old, buffers, strict=True)
    return tuple([places[buffer] if buffer >= 0 else place for place, buffer in pairs])


def _moved(
    regions: Sequence[Region], old: Sequence[Place], buffers: Sequence[int], places: Sequence[Place]
) -> tuple[Region, ...]:
    moved = []
    for region, place, buffer in zip(regions, old, buffers, strict=True):
        shift = places[buffer].address - place.address if buffer >= 0 else 0
        moved.append(region.moved(shift) if shift else region)
    return tuple(moved)
