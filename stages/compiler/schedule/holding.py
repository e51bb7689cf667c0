"""Values that stay in the SRAM where some write parts of them and others read other parts.

`forwarding.py` leaves a load out where a slot holds the same box. A LayerNorm stores rows of what a
matmul loads whole, though, and a matmul stores columns of what a LayerNorm loads by rows. Here the
least box that covers such stores and loads gets a buffer of its own, from the first write to the
last read, where there is room for it: who stored a part writes it there, who loaded one reads it
there, and stores stay only where somebody else needs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stages.compiler.emit.program import Place, Written
from stages.compiler.emit.transfers import copies
from stages.compiler.schedule.clock import Pricing
from stages.compiler.schedule.dependencies import BufferUse, Lane
from stages.compiler.schedule.holds import Hold
from stages.compiler.schedule.images import Mapping, carried, transfer_map
from stages.compiler.schedule.ordered import OrderedProgram
from stages.compiler.schedule.rewriting import Changes, Forwarded, rewritten
from stages.hardware.spec import Dma
from stages.plan.instructions import SRAM, Instruction, Opcode, Region
from stages.plan.prices import Price
from stages.recipe.decisions import Lifetime

_Moves = dict[int, dict[int, Region]]
"""For instructions, the regions that take the place of others; reads and writes are counted on."""


@dataclass(frozen=True, slots=True)
class Held:
    """What is left of a program, and the prices of its instructions."""

    program: Forwarded
    prices: list[Price]


def held(
    program: OrderedProgram,
    holds: Sequence[Hold],
    prices: Sequence[Price],
    price: Pricing,
    dma: Dma,
    room_bytes: int,
) -> Held:
    """The program with those of its holds for which an SRAM of `room_bytes` has room, the first
    ones first. `price` prices an instruction, `prices` are those of the program's."""
    return _Holding(program, prices, price, dma).run(holds, room_bytes)


@dataclass(slots=True)
class _Holding:
    program: OrderedProgram
    prices: Sequence[Price]
    price: Pricing
    dma: Dma
    opened: dict[int, int] = field(init=False)
    live: NDArray[np.int64] = field(init=False)
    chosen: dict[int, Hold] = field(default_factory=dict)
    moves: dict[Hold, _Moves] = field(default_factory=dict)
    changes: Changes = field(default_factory=Changes)

    def __post_init__(self) -> None:
        self.opened = self.program.opened()
        self.live = self.program.live_bytes(self.opened)

    def run(self, holds: Sequence[Hold], room_bytes: int) -> Held:
        """Choose, and rewrite the program."""
        for hold in holds:
            self._consider(hold, room_bytes)
        prices = list(self.prices)
        for hold in dict.fromkeys(self.chosen.values()):
            self._apply(hold)
        for number, (item, _) in self.changes.items.items():
            prices[number] = self.price(item.instruction)
        program = self.program
        done = rewritten(program.written, program.found, program.order, self.changes)
        return Held(done, [prices[number] for number in done.kept])

    def _consider(self, hold: Hold, room_bytes: int) -> None:
        """Choose a hold, in the stead of those of the same part for fewer loads, if there is
        room."""
        before = list(dict.fromkeys([self.chosen[n] for n in hold.transfers if n in self.chosen]))
        if any(not {*hold.loads} > {*one.loads} for one in before):
            return
        for one in before:
            self._take(one, -1)
        self._take(hold, 1)
        if int(self.live[hold.start : hold.stop].max()) <= room_bytes:
            moves = self._moved(hold)
            if moves is not None:
                self.moves[hold] = moves
                self.chosen.update(dict.fromkeys(hold.transfers, hold))
                return
        self._take(hold, -1)
        for one in before:
            self._take(one, 1)

    def _take(self, hold: Hold, sign: int) -> None:
        """Count the bytes of a hold, and no longer those of its slots; or the other way round."""
        program = self.program
        self.live[hold.start : hold.stop] += sign * hold.grid.size_bytes
        for number in hold.transfers:
            slot = program.slot(number)
            size = program.found.buffers[slot].size_bytes
            self.live[self.opened[slot] : program.ends[slot]] -= sign * size

    def _moved(self, hold: Hold) -> _Moves | None:
        """Where all that touch the slots of a hold find their parts in it, its beginning being 0;
        None where one can't say so, or would be slower by more than the hold saves."""
        program, found = self.program, self.program.found
        address = found.buffers[hold.value].place.address + hold.grid.start
        moves: _Moves = {}
        for number in hold.transfers:
            slot, whole = program.slot(number), program.inner(number)
            first = transfer_map(whole, program.outer(number), address)
            if first is None:
                return None
            is_store = found.lanes[number] is Lane.STORE
            users = found.buffers[slot].writers if is_store else found.successors[number]
            for one in [*users, *([number] if number in hold.kept else [])]:
                regions = self._regions(one, slot, whole, (first, hold.grid.mapping))
                if regions is None:
                    return None
                moves.setdefault(one, {}).update(regions)
        slower = sum(self._slower(number, regions) for number, regions in moves.items())
        return moves if slower < hold.saved else None

    def _regions(
        self, number: int, slot: int, whole: Region, maps: tuple[Mapping, Mapping]
    ) -> dict[int, Region] | None:
        """What an instruction touches of a slot, of which a transfer fills or empties the region
        `whole`, where it lies in a hold."""
        instruction = self.program.written[number].instruction
        regions = (*instruction.reads, *instruction.writes)
        moves = {}
        for at, buffer in enumerate(self.program.found.buffers_of[number]):
            if buffer == slot:
                region = carried(regions[at], whole.address, maps)
                if region is None or region.dtype.size_bytes != whole.dtype.size_bytes:
                    return None
                moves[at] = region
        if instruction.opcode is Opcode.DMA_COPY and not self._is_one_copy(instruction, moves):
            return None
        return moves

    def _is_one_copy(self, instruction: Instruction, regions: dict[int, Region]) -> bool:
        """Whether a transfer is still within what one descriptor can say."""
        changed = _touching(instruction, regions)
        source, target = changed.reads[0], changed.writes[0]
        is_aligned = all(item.address % self.dma.alignment_bytes == 0 for item in regions.values())
        return is_aligned and len(copies(source, target, self.dma)) == 1

    def _slower(self, number: int, regions: dict[int, Region]) -> int:
        """The cycles that an instruction takes longer with other regions."""
        instruction = _touching(self.program.written[number].instruction, regions)
        return self.price(instruction)[0] - self.prices[number][0]

    def _apply(self, hold: Hold) -> None:
        """Write down what a hold changes."""
        changes, found = self.changes, self.program.found
        buffer = len(found.buffers) + len(changes.added)
        size = hold.grid.size_bytes
        name = f"{found.buffers[self.program.slot(hold.stores[0])].place.name}.held"
        place = Place(name, SRAM, 0, size, Lifetime.EPHEMERAL, is_slot=True)
        changes.added.append(BufferUse(place, True, 0, 0, size))
        for number, regions in self.moves[hold].items():
            before = self.program.written[number], found.buffers_of[number]
            item, touched = changes.items.get(number, before)
            places = [*item.reads, *item.writes]
            touched = list(touched)
            for at in regions:
                places[at], touched[at] = place, buffer
            count = len(item.reads)
            changed = _touching(item.instruction, regions)
            written = Written(changed, tuple(places[:count]), tuple(places[count:]))
            changes.items[number] = written, touched
        makers = {store: found.buffers[self.program.slot(store)].writers for store in hold.stores}
        for store in hold.stores:
            if store not in hold.kept:
                changes.waits[store] = makers[store]
        for load in hold.loads:
            stores = [one for one in found.predecessors[load] if one in makers]
            changes.waits[load] = [writer for store in stores for writer in makers[store]]


def _touching(instruction: Instruction, regions: dict[int, Region]) -> Instruction:
    """An instruction with other regions."""
    touched = [*instruction.reads, *instruction.writes]
    for at, region in regions.items():
        touched[at] = region
    count = len(instruction.reads)
    return instruction.touching(tuple(touched[:count]), tuple(touched[count:]))
