"""A program as emitted becomes the program as scheduled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from stages.compiler.emit.program import Place, Program, Written
from stages.compiler.schedule.anchors import anchored
from stages.compiler.schedule.clock import Clock, clock_of
from stages.compiler.schedule.compact import compacted, ended
from stages.compiler.schedule.dependencies import Dependencies, Reach, dependencies
from stages.compiler.schedule.forwarding import forwarded
from stages.compiler.schedule.layer_by_layer import layer_by_layer
from stages.compiler.schedule.ordering import Ordering, Packing, Scheduler, Stuck
from stages.compiler.schedule.permute import permuted, relaunched, reordered
from stages.compiler.schedule.weave import Freedom, woven_order
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import Binding, Region

_LARGE_TENTHS = 4
"""A slot of as many tenths of the SRAM, or more, gets its address before all others."""
_TRIES = 8
"""Schedules that are begun before all slots are pinned, at most."""


class Order(Enum):
    """How much of the emitted order is kept: groups wait for each other, their compute keeps the
    order of the groups, or it is woven where that finds room."""

    LAYERS = "layers"
    GROUPS = "groups"
    WOVEN = "woven"


@dataclass(frozen=True, slots=True)
class Way:
    """A way to weave: what may change places, and how many tenths of the SRAM slots may take at
    once so that loads are saved; what is left is for loads ahead of time, and for gaps."""

    freedom: Freedom
    tenths: int


WAYS = tuple(Way(freedom, tenths) for tenths in (7, 6, 5) for freedom in Freedom)
"""The ways to weave, the one that saves most first; the next is tried where one finds no room."""


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
    ways: Sequence[Way] = WAYS,
) -> Scheduled:
    """The program in the order of a list schedule, woven in the first of the ways that finds room.

    Where free bytes lie so scattered that a buffer finds no place, the slots of its stretch of the
    program are pinned to the addresses that they were emitted with, which are known to fit.
    """
    written = program.written
    clock = _clock(program, constants, queues, spec)
    if order is Order.WOVEN:
        best = _woven(written, clock, spec, ways)
    else:
        best = _plain(written, clock, spec, order)
    ordering = compacted(best.found, best.ordering, best.clock, spec)
    return _rewritten(best.written, best.found, ordering)


def woven_cycles(
    program: Program,
    constants: Sequence[Binding],
    queues: Sequence[str],
    spec: HardwareSpec,
    ways: Sequence[Way],
) -> list[int | None]:
    """For each way, when the last instruction of a program ends that is woven so; None where that
    finds no room. Buffers aren't moved together."""
    clock = _clock(program, constants, queues, spec)
    weaver = _Weaver(program.written, clock, spec)
    found = [weaver.woven(way) for way in ways]
    return [None if item is None else ended(item.ordering, item.clock) for item in found]


def _clock(
    program: Program, constants: Sequence[Binding], queues: Sequence[str], spec: HardwareSpec
) -> Clock:
    instructions = [item.instruction for item in program.written]
    return clock_of(instructions, program.kernels.kernels, constants, queues, spec)


def _plain(written: list[Written], clock: Clock, spec: HardwareSpec, order: Order) -> _Program:
    """The program with compute in the order of the groups, each after the other's end if need
    be."""
    found = dependencies(written)
    if order is Order.LAYERS:
        found = layer_by_layer(found, written)
    return _Program(written, found, clock, _ordered(written, found, clock, spec))


def _woven(
    written: list[Written], clock: Clock, spec: HardwareSpec, ways: Sequence[Way]
) -> _Program:
    """The program with its groups woven together, in the first way that finds room; as it is where
    none does."""
    weaver = _Weaver(written, clock, spec)
    for way in ways:
        found = weaver.woven(way)
        if found is not None:
            return found
    plain = permuted(weaver.every, range(len(written)))
    return _Program(written, plain, clock, _ordered(written, plain, clock, spec))


@dataclass(slots=True)
class _Weaver:
    """Weaves one program in several ways. `every` are all its dependencies."""

    written: list[Written]
    clock: Clock
    spec: HardwareSpec
    every: Dependencies = field(init=False)
    orders: dict[Freedom, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.every = dependencies(self.written, Reach.ALL)

    def woven(self, way: Way) -> _Program | None:
        """The program woven in a way; None where that finds no room."""
        order = self._order(way.freedom)
        room = self.spec.sram.usable_bytes * way.tenths // 10
        short = forwarded(self.written, self.every, order, room)
        program = relaunched(short.written, short.order)
        clock = reordered(self.clock, [short.kept[number] for number in short.order], program)
        fixed = anchored(permuted(short.found, short.order), self.spec, self._large_bytes())
        if fixed is None:
            return None
        found, pinned = fixed
        try:
            scheduler = Scheduler(found, clock.fresh(), self.spec, pinned, Packing.SORTED)
            return _Program(program, found, clock, scheduler.run())
        except Stuck:
            return None

    def _order(self, freedom: Freedom) -> list[int]:
        if freedom not in self.orders:
            self.orders[freedom] = woven_order(
                self.written, self.every, self.clock, freedom, self._large_bytes()
            )
        return self.orders[freedom]

    def _large_bytes(self) -> int:
        return self.spec.sram.usable_bytes * _LARGE_TENTHS // 10


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
