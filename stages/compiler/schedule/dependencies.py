"""What each instruction of a program must wait for, and which buffers it touches.

Slots are renamed, as registers are: each time that one is filled anew it is a buffer of its own,
whose address is chosen when its turn comes. Other places lie where memory planning put them.
Within a place, instructions depend on each other only where their boxes meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from stages.compiler.emit.program import Place, Written
from stages.compiler.schedule.overlap import Footprint, footprint, may_share
from stages.compiler.tiling.streams import align
from stages.plan.instructions import DDR, SRAM, Opcode, Region
from stages.recipe.decisions import Lifetime


class Lane(IntEnum):
    """Instructions of one lane start in program order; loads may overtake each other."""

    TENSOR_CORE = 0
    VECTOR = 1
    HOST = 2
    STORE = 3
    MOVE = 4
    LOAD = 5


class Reach(Enum):
    """Which dependencies are found: those that are needed while each lane keeps its order, or all
    of them, so that any order that keeps them has the program's meaning."""

    LANES = "lanes"
    ALL = "all"


LANES = {"tensor_core": Lane.TENSOR_CORE, "vector": Lane.VECTOR, "host": Lane.HOST}


@dataclass(slots=True)
class BufferUse:
    """A buffer: a place, or one filling of a slot.

    `first` and `last`: the first and the last instruction that touch it. `touches`: how many do.
    `writers`: those that write it. `size_bytes`: what they touch of it.
    """

    place: Place
    is_slot: bool
    first: int
    last: int
    size_bytes: int
    touches: int = 0
    writers: list[int] = field(default_factory=list)

    @property
    def is_managed(self) -> bool:
        """Whether it shares its memory with others over time: not what lives all along."""
        return (
            self.size_bytes > 0
            and self.place.memory in (SRAM, DDR)
            and self.place.lifetime not in (Lifetime.WEIGHTS, Lifetime.LONG_LIVED)
        )

    def taken_bytes(self, alignment: int) -> int:
        """Bytes that it takes of its memory: a slot is free to move by multiples of an alignment,
        and takes whole ones."""
        return align(self.size_bytes, alignment) if self.is_slot else self.size_bytes


@dataclass(slots=True)
class Dependencies:
    """Of a program of n instructions: lanes, predecessors, and the buffers that each touches; the
    first entries of `buffers_of[i]` go with its reads, the rest with its writes. -1 stands for what
    is never written: constants. `successors` are the predecessors turned around. `managed` are the
    numbers of the buffers that share their memory over time, in the order of their first touches.
    """

    lanes: list[Lane]
    predecessors: list[list[int]]
    buffers_of: list[list[int]]
    buffers: list[BufferUse]
    successors: list[list[int]] = field(init=False)
    managed: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.successors = [[] for _ in self.lanes]
        for number, items in enumerate(self.predecessors):
            for other in items:
                self.successors[other].append(number)
        uses = self.buffers
        self.managed = [n for n, use in enumerate(uses) if use.touches and use.is_managed]
        self.managed.sort(key=lambda number: uses[number].first)


_Accesses = dict[Lane, list[tuple[int, Footprint]]]
"""By lane, the numbers and the footprints of accesses, in program order."""


@dataclass(slots=True)
class _Touched:
    """A buffer, and the accesses to it so far."""

    use: BufferUse
    writes: _Accesses = field(default_factory=dict)
    reads: _Accesses = field(default_factory=dict)

    def note(self, number: int, mark: Footprint) -> None:
        """One more access."""
        use = self.use
        if use.first < 0:
            use.first = number
        use.last = number
        if mark.stop > use.size_bytes:
            use.size_bytes = mark.stop


def dependencies(program: Sequence[Written], reach: Reach = Reach.LANES) -> Dependencies:
    """The dependencies of a program whose instructions stand in an order that has its meaning."""
    return _Finder(reach).run(program)


@dataclass(slots=True)
class _Finder:
    reach: Reach
    touched: list[_Touched] = field(default_factory=list)
    current: dict[str, int] = field(default_factory=dict)
    was_read: set[str] = field(default_factory=set)

    def run(self, program: Sequence[Written]) -> Dependencies:
        """The dependencies of all instructions."""
        lanes, predecessors, buffers_of = [], [], []
        for number, item in enumerate(program):
            lane = _lane(item)
            reading = [self._read_buffer(place) for place in item.reads]
            writing = [self._written_buffer(place, item, number) for place in item.writes]
            found: dict[int, None] = {}
            reads = self._marked(reading, item.instruction.reads)
            for buffer, mark in reads:
                self._collect(found, buffer.writes, mark)
            for buffer, mark in self._marked(writing, item.instruction.writes):
                self._collect(found, buffer.writes, mark)
                self._collect(found, buffer.reads, mark)
                buffer.writes.setdefault(lane, []).append((number, mark))
                buffer.note(number, mark)
                if not (writers := buffer.use.writers) or writers[-1] != number:
                    writers.append(number)
            for buffer, mark in reads:
                buffer.reads.setdefault(lane, []).append((number, mark))
                buffer.note(number, mark)
            touching = [*reading, *writing]
            for one in {*touching}:
                if one >= 0:
                    self.touched[one].use.touches += 1
            found.pop(number, None)
            lanes.append(lane)
            predecessors.append(list(found))
            buffers_of.append(touching)
        return Dependencies(lanes, predecessors, buffers_of, [item.use for item in self.touched])

    def _marked(
        self, buffers: Sequence[int], regions: Sequence[Region]
    ) -> list[tuple[_Touched, Footprint]]:
        """The buffers among these, constants left out, with what is touched of each."""
        touched = self.touched
        return [
            (found := touched[buffer], footprint(region, found.use.place.address))
            for buffer, region in zip(buffers, regions, strict=True)
            if buffer >= 0
        ]

    def _collect(self, found: dict[int, None], accesses: _Accesses, mark: Footprint) -> None:
        """Add the last access of each lane that may share a byte; all of them where a lane's
        instructions may overtake each other."""
        every = self.reach is Reach.ALL
        for lane, items in accesses.items():
            for number, other in reversed(items):
                if may_share(mark, other):
                    found[number] = None
                    if lane is not Lane.LOAD and not every:
                        break

    def _read_buffer(self, place: Place) -> int:
        if place.lifetime is Lifetime.WEIGHTS:
            return -1
        if place.is_slot:
            self.was_read.add(place.name)
            return self.current[place.name]
        return self._fixed(place)

    def _written_buffer(self, place: Place, item: Written, number: int) -> int:
        if not place.is_slot:
            return self._fixed(place)
        name = place.name
        found = self.current.get(name)
        if found is None or (name in self.was_read and not _updates(item, name)):
            self.was_read.discard(name)
            found = self.current[name] = self._new(place, number)
        return found

    def _fixed(self, place: Place) -> int:
        found = self.current.get(place.name)
        if found is None:
            found = self.current[place.name] = self._new(place, -1)
        return found

    def _new(self, place: Place, number: int) -> int:
        size = 0 if place.is_slot else place.size_bytes
        self.touched.append(_Touched(BufferUse(place, place.is_slot, number, number, size)))
        return len(self.touched) - 1


def _updates(item: Written, name: str) -> bool:
    """Whether an instruction reads the slot that it writes."""
    return any(other.name == name for other in item.reads)


def _lane(item: Written) -> Lane:
    instruction = item.instruction
    if instruction.opcode is not Opcode.DMA_COPY:
        return LANES[instruction.queue]
    if item.writes[0].is_slot:
        return Lane.LOAD
    return Lane.STORE if item.reads[0].is_slot else Lane.MOVE
