"""Boxes of values that could stay in the SRAM from their first write to their last read.

For each reader of a value, up to its last load, those of the stores and loads that hang together
make a box: the rows of a LayerNorm that a matmul loads whole, or the two tiles of a matmul that
a softmax takes at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stages.compiler.schedule.dependencies import Lane
from stages.compiler.schedule.images import Grid, covering, extents_of
from stages.compiler.schedule.ordered import OrderedProgram
from stages.plan.prices import Price
from stages.recipe.decisions import Lifetime


@dataclass(frozen=True, slots=True)
class Hold:
    """A box of a value that could stay.

    `value`: the number of its buffer in the DDR. `stores`, `loads`: the transfers of its parts.
    `kept`: those of the stores that somebody else needs. `grid`: the box. `start`, `stop`: the
    places in the order over which it would take its bytes. `saved`: cycles of the transfers that
    aren't made. `taken`: bytes, times the places over which it takes them, beyond those of the
    slots that it replaces.
    """

    value: int
    stores: tuple[int, ...]
    loads: tuple[int, ...]
    kept: frozenset[int]
    grid: Grid
    start: int
    stop: int
    saved: int
    taken: int

    @property
    def transfers(self) -> tuple[int, ...]:
        """Stores and loads."""
        return (*self.stores, *self.loads)


def holds_of(program: OrderedProgram, prices: Sequence[Price]) -> list[Hold]:
    """All that could stay, those first that take the least for what they save."""
    found = program.found
    loads: dict[int, list[int]] = {}
    for number in program.order:
        if found.lanes[number] is Lane.LOAD and (value := found.buffers_of[number][0]) >= 0:
            loads.setdefault(value, []).append(number)
    holds = [
        hold
        for value, numbers in loads.items()
        if found.buffers[value].writers
        for hold in _Value(program, prices, value).holds(numbers)
        if hold.saved > 0
    ]
    holds.sort(key=lambda hold: (hold.taken / hold.saved, hold.start, hold.value, hold.loads))
    return holds


@dataclass(slots=True)
class _Value:
    """A value, and the parts of it that hang together: `part_of` names for each store and load
    another one of its part, and the head itself; `members` are those of each head."""

    program: OrderedProgram
    prices: Sequence[Price]
    value: int
    part_of: dict[int, int] = field(default_factory=dict)
    members: dict[int, list[int]] = field(default_factory=dict)

    def holds(self, loads: Sequence[int]) -> Iterator[Hold]:
        """What could stay of it, for the first of its readers, for the first two, and so on; the
        same where one reader begins to load the same boxes again."""
        found, written = self.program.found, self.program.written
        writers = {*found.buffers[self.value].writers}
        stores = {number for number in writers if self._is_plain_store(number)}
        last = {written[number].instruction.group: number for number in loads}
        ends = {*last.values()}
        changed: dict[int, None] = {}
        seen: set[object] = set()
        for number in loads:
            makers = [one for one in found.predecessors[number] if one in writers]
            if makers and stores.issuperset(makers) and self._is_plain_load(number):
                region = self.program.outer(number)
                box = region.address, region.shape, region.strides
                if box in seen:
                    yield from self._parts(changed)
                    seen.clear()
                seen.add(box)
                changed[self._joined(number, makers, changed)] = None
            if number in ends:
                yield from self._parts(changed)

    def _parts(self, heads: dict[int, None]) -> Iterator[Hold]:
        for head in heads:
            hold = self._hold(self.members[head])
            if hold is not None:
                yield hold
        heads.clear()

    def _joined(self, load: int, makers: Sequence[int], changed: dict[int, None]) -> int:
        """The head of the part that a load makes one with what it reads."""
        self.part_of[load] = load
        self.members[load] = [load]
        for number in makers:
            head = self._head(number)
            if head != load:
                self.part_of[head] = load
                self.members[load] += self.members.pop(head)
                changed.pop(head, None)
        return load

    def _head(self, number: int) -> int:
        if number not in self.part_of:
            self.part_of[number] = number
            self.members[number] = [number]
        while (other := self.part_of[number]) != number:
            self.part_of[number] = self.part_of[other]
            number = other
        return number

    def _is_plain_store(self, number: int) -> bool:
        """Whether a writer is a store of the whole of what one instruction made, of bytes that
        nothing else writes."""
        found, program = self.program.found, self.program
        if found.lanes[number] is not Lane.STORE or not self._is_whole(number):
            return False
        use = found.buffers[program.slot(number)]
        if use.touches != 2 or found.lanes[use.writers[0]] >= Lane.STORE:
            return False
        writers = {*found.buffers[self.value].writers}
        return writers.isdisjoint(found.predecessors[number])

    def _is_plain_load(self, number: int) -> bool:
        """Whether a load fills its slot alone, for engines to read, and nothing writes what it
        reads again."""
        lanes = self.program.found.lanes
        readers = self.program.found.successors[number]
        return self._is_whole(number) and all(lanes[one] < Lane.STORE for one in readers)

    def _is_whole(self, number: int) -> bool:
        use = self.program.found.buffers[self.program.slot(number)]
        return len(use.writers) == 1 and self.program.inner(number).address == use.place.address

    def _hold(self, numbers: Sequence[int]) -> Hold | None:
        program, found = self.program, self.program.found
        address = found.buffers[self.value].place.address
        outers = [program.outer(number) for number in numbers]
        boxes = [(outer.address - address, extents_of(outer)) for outer in outers]
        grid = covering(boxes, outers[0].dtype.size_bytes)
        if grid is None:
            return None
        stores = tuple(sorted(n for n in numbers if found.lanes[n] is Lane.STORE))
        loads = tuple(sorted(n for n in numbers if found.lanes[n] is Lane.LOAD))
        kept = frozenset(store for store in stores if self._is_needed(store, {*loads}))
        slots = [program.slot(number) for number in numbers]
        start = min(program.begins[slot] for slot in slots)
        stop = max(program.ends[slot] for slot in slots)
        instead = sum(
            found.buffers[slot].size_bytes * (program.ends[slot] - program.begins[slot])
            for slot in slots
        )
        return Hold(
            self.value,
            stores,
            loads,
            kept,
            grid,
            start,
            stop,
            sum(self.prices[number][0] for number in numbers if number not in kept),
            max(grid.size_bytes * (stop - start) - instead, 0),
        )

    def _is_needed(self, store: int, loads: set[int]) -> bool:
        """Whether others than these loads need what a store puts in the DDR."""
        return self.program.written[store].writes[0].lifetime is Lifetime.LONG_LIVED or not (
            loads.issuperset(self.program.found.successors[store])
        )
