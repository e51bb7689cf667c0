"""Loads of what already lies in the SRAM, left out.

A woven program takes every value through the DDR. In the order that was found, the instruction that
stores a part of a value and the one that loads it again often stand close together, and so do two
loads of the same weights. Where the bytes that stand in between leave room for it, the slot that
holds them stays filled, its next readers read it there, and a store that nobody loads any more goes
as well. It is residency by single tiles, for as long as the order needs it
(forwarding from stores to loads, as processors do it, and common subexpressions).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from stages.compiler.emit.program import Written
from stages.compiler.schedule.dependencies import BufferUse, Dependencies, Lane
from stages.plan.instructions import SRAM
from stages.recipe.decisions import Lifetime

_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What is left of a program: its instructions, all their dependencies, their numbers in the
    program that it was made from, and an order of them."""

    written: list[Written]
    found: Dependencies
    kept: list[int]
    order: list[int]


@dataclass(frozen=True, slots=True)
class _Link:
    """A load that needn't be made as long as what `source` filled or stored stays in its slot:
    `[start, stop)` are the places in the order over which that takes `size_bytes` more."""

    source: int
    load: int
    start: int
    stop: int
    size_bytes: int


def forwarded(
    written: Sequence[Written], found: Dependencies, order: Sequence[int], room_bytes: int
) -> Forwarded:
    """The program without the loads that an SRAM of `room_bytes` makes needless in this order;
    `found` holds every dependency (`Reach.ALL`)."""
    return _Forwarding(written, found, order).run(room_bytes)


@dataclass(slots=True)
class _Forwarding:
    written: Sequence[Written]
    found: Dependencies
    order: Sequence[int]
    place: list[int] = field(init=False)
    ends: dict[int, int] = field(init=False)
    begins: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.place = [0] * len(self.order)
        self.begins, self.ends = {}, {}
        for at, number in enumerate(self.order):
            self.place[number] = at
            for buffer in self.found.buffers_of[number]:
                self.begins.setdefault(buffer, at)
                self.ends[buffer] = at + 1

    def run(self, room_bytes: int) -> Forwarded:
        """Choose links, and rewrite the program."""
        links = self._links()
        links.sort(key=lambda link: (link.stop - link.start, link.load))
        live = self._live_bytes()
        sources: dict[int, int] = {}
        for link in links:
            span = live[link.start : link.stop]
            if len(span) and int(span.max()) + link.size_bytes > room_bytes:
                continue
            span += link.size_bytes
            sources[link.load] = link.source
        return self._rewritten(sources)

    def _live_bytes(self) -> NDArray[np.int64]:
        """Bytes of slots that are taken at each place of the order."""
        change = np.zeros(len(self.order) + 1, dtype=np.int64)
        for number, use in enumerate(self.found.buffers):
            if use.place.memory == SRAM and number in self.begins:
                change[self.begins[number]] += use.size_bytes
                change[self.ends[number]] -= use.size_bytes
        return np.cumsum(change)

    def _links(self) -> list[_Link]:
        """Each load with what filled or stored the same bytes last."""
        last: dict[_Key, int] = {}
        links = []
        for at, number in enumerate(self.order):
            lane = self.found.lanes[number]
            if lane is Lane.STORE:
                key = self._key(number, reads=False)
                if key is not None:
                    last[key] = number
            elif lane is Lane.LOAD:
                key = self._key(number, reads=True)
                if key is None:
                    continue
                source = last.get(key)
                last[key] = number
                if source is not None and self._is_same(source, number):
                    buffer = self._slot(source)
                    start = self.ends[buffer]
                    size = self.found.buffers[buffer].size_bytes
                    links.append(_Link(source, number, start, max(start, at), size))
        return links

    def _key(self, number: int, reads: bool) -> _Key | None:
        """What of which place in the DDR a transfer moves, and how it lies in the slot; None where
        the slot is filled or stored by several."""
        item = self.written[number]
        outer = item.instruction.reads[0] if reads else item.instruction.writes[0]
        inner = item.instruction.writes[0] if reads else item.instruction.reads[0]
        use = self.found.buffers[self._slot(number)]
        if len(use.writers) != 1 or inner.address != self._base(number, reads):
            return None
        place = item.reads[0] if reads else item.writes[0]
        return (
            place.name,
            outer.address,
            outer.dtype,
            outer.shape,
            outer.strides,
            inner.shape,
            inner.strides,
        )

    def _base(self, number: int, reads: bool) -> int:
        item = self.written[number]
        return (item.writes[0] if reads else item.reads[0]).address

    def _slot(self, number: int) -> int:
        """The slot that a load fills or a store empties."""
        return self.found.buffers_of[number][0 if self.found.lanes[number] is Lane.STORE else 1]

    def _is_same(self, source: int, load: int) -> bool:
        """Whether nothing was written in between."""
        outer = self.found.buffers_of[load][0]
        if outer < 0:
            return True
        made = self._makers(load, outer)
        if self.found.lanes[source] is Lane.STORE:
            return made == {source}
        return made == self._makers(source, outer)

    def _makers(self, load: int, outer: int) -> set[int]:
        return {
            number
            for number in self.found.predecessors[load]
            if outer in self.found.buffers_of[number][len(self.written[number].reads) :]
        }

    def _rewritten(self, sources: dict[int, int]) -> Forwarded:
        found = self.found
        instead = self._roots(sources)
        gone = set(sources)
        gone |= self._useless_stores(sources)
        buffer_of = {self._slot(load): self._slot(source) for load, source in instead.items()}
        written: list[Written] = []
        kept = [number for number in range(len(self.order)) if number not in gone]
        numbers = {number: at for at, number in enumerate(kept)}
        predecessors, buffers_of = [], []
        for number in kept:
            item, touched = self.written[number], found.buffers_of[number]
            if any(buffer in buffer_of for buffer in touched):
                item = self._redirected(item, touched, buffer_of)
                touched = [buffer_of.get(buffer, buffer) for buffer in touched]
            written.append(item)
            buffers_of.append(touched)
            after: dict[int, None] = {}
            for other in found.predecessors[number]:
                for needed in self._instead_of(other, instead, gone):
                    after[numbers[needed]] = None
            predecessors.append(list(after))
        used = sorted({buffer for touched in buffers_of for buffer in touched} - {-1})
        renamed = {-1: -1} | {buffer: at for at, buffer in enumerate(used)}
        buffers_of = [[renamed[buffer] for buffer in touched] for touched in buffers_of]
        buffers = self._buffers(used, numbers, buffers_of)
        lanes = [found.lanes[number] for number in kept]
        order = [numbers[number] for number in self.order if number not in gone]
        return Forwarded(
            written, Dependencies(lanes, predecessors, buffers_of, buffers), kept, order
        )

    def _instead_of(self, number: int, instead: dict[int, int], gone: set[int]) -> list[int]:
        """What to wait for where one would wait for a transfer that isn't made."""
        if number not in gone:
            return [number]
        return self.found.buffers[self._slot(instead.get(number, number))].writers

    def _roots(self, sources: dict[int, int]) -> dict[int, int]:
        """For each load that is left out, the transfer at whose slot its chain begins."""
        roots: dict[int, int] = {}
        for load in sorted(sources, key=lambda number: self.place[number]):
            source = sources[load]
            roots[load] = roots.get(source, source)
        return roots

    def _useless_stores(self, sources: dict[int, int]) -> set[int]:
        """Stores whose every reader is left out."""
        found = self.found
        stores = {root for root in self._roots(sources).values() if found.lanes[root] is Lane.STORE}
        return {
            store
            for store in stores
            if self.written[store].writes[0].lifetime is not Lifetime.LONG_LIVED
            and all(number in sources for number in found.successors[store])
        }

    def _redirected(
        self, item: Written, touched: Sequence[int], buffer_of: dict[int, int]
    ) -> Written:
        """An instruction that reads other slots, which hold the same."""
        reads, places = [], []
        count = len(item.reads)
        regions = item.instruction.reads
        for region, place, buffer in zip(regions, item.reads, touched[:count], strict=True):
            if buffer in buffer_of:
                target = self.found.buffers[buffer_of[buffer]].place
                reads.append(
                    replace(region, address=region.address - place.address + target.address)
                )
                places.append(target)
            else:
                reads.append(region)
                places.append(place)
        return replace(
            item,
            instruction=replace(item.instruction, reads=tuple(reads)),
            reads=tuple(places),
        )

    def _buffers(
        self,
        used: Sequence[int],
        numbers: dict[int, int],
        buffers_of: Sequence[Sequence[int]],
    ) -> list[BufferUse]:
        """Those of the buffers that are still touched."""
        touching: list[list[int]] = [[] for _ in used]
        for number, touched in enumerate(buffers_of):
            for buffer in {*touched} - {-1}:
                touching[buffer].append(number)
        return [
            replace(
                self.found.buffers[buffer],
                first=touches[0],
                last=touches[-1],
                touches=len(touches),
                writers=[
                    numbers[writer]
                    for writer in self.found.buffers[buffer].writers
                    if writer in numbers
                ],
            )
            for buffer, touches in zip(used, touching, strict=True)
        ]
