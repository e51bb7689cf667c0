"""A program as emitted becomes the program as scheduled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from stages.compiler.emit.program import Place, Program, Written
from stages.compiler.schedule.clock import Clock, clock_of
from stages.compiler.schedule.compact import compacted
from stages.compiler.schedule.dependencies import Dependencies, Reach, dependencies
from stages.compiler.schedule.forwarding import forwarded
from stages.compiler.schedule.layer_by_layer import layer_by_layer
from stages.compiler.schedule.ordering import Ordering, Packing, Scheduler, Stuck
from stages.compiler.schedule.permute import permuted, relaunched, reordered
from stages.compiler.schedule.weave import Freedom, woven_order
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import Binding, Region

_ROOMS = (7, 6, 5)
"""Tenths of the SRAM that slots of a woven program may take at once so that loads are saved; what
is left is for loads ahead of time, and for gaps. The next is tried where one finds no room."""
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


@dataclass(frozen=True, slots=True)
class _Program:
    """A program in some order, what it must keep, and how a list schedule runs it."""

    written: list[Written]
    found: Dependencies
    clock: Clock
    ordering: Ordering


def scheduled(
    program: Program,
    constants: Sequence[Binding],
    queues: Sequence[str],
    spec: HardwareSpec,
    order: Order = Order.GROUPS,
) -> Scheduled:
    """The program in the order of a list schedule.

    Where free bytes lie so scattered that a buffer finds no place, the slots of its stretch of the
    program are pinned to the addresses that they were emitted with, which are known to fit.
    """
    written = program.written
    instructions = [item.instruction for item in written]
    clock = clock_of(instructions, program.kernels.kernels, constants, queues, spec)
    if order is Order.WOVEN:
        best = _woven(written, clock, spec)
    else:
        best = _plain(written, clock, spec, order)
    ordering = compacted(best.found, best.ordering, best.clock, spec)
    return _rewritten(best.written, best.found, ordering)


def _plain(written: list[Written], clock: Clock, spec: HardwareSpec, order: Order) -> _Program:
    """The program with compute in the order of the groups, each after the other's end if need
    be."""
    found = dependencies(written)
    if order is Order.LAYERS:
        found = layer_by_layer(found, written)
    return _Program(written, found, clock, _ordered(written, found, clock, spec))


def _woven(written: list[Written], clock: Clock, spec: HardwareSpec) -> _Program:
    """The program with its groups woven together, in the first way that finds room: where the
    SRAM saves many loads and where it saves fewer; as it is where none does."""
    every = dependencies(written, Reach.ALL)
    orders = [woven_order(written, every, clock, freedom) for freedom in Freedom]
    for tenths in _ROOMS:
        for order in orders:
            short = forwarded(written, every, order, spec.sram.usable_bytes * tenths // 10)
            program = relaunched(short.written, short.order)
            found = permuted(short.found, short.order)
            ours = reordered(clock, [short.kept[number] for number in short.order], program)
            try:
                ordering = Scheduler(found, ours.fresh(), spec, frozenset(), Packing.SORTED).run()
            except Stuck:
                continue
            return _Program(program, found, ours, ordering)
    plain = permuted(every, range(len(written)))
    return _Program(written, plain, clock, _ordered(written, plain, clock, spec))


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
