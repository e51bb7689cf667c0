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
from dataclasses import dataclass, replace

from stages.compiler.emit.program import Written
from stages.compiler.schedule.dependencies import Dependencies, Lane
from stages.compiler.schedule.ordered import OrderedProgram
from stages.compiler.schedule.rewriting import Changes, Forwarded, rewritten
from stages.recipe.decisions import Lifetime

_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Link:
    """A load that needn't be made as long as what `source` filled or stored stays in its slot:
    `[start, stop)` are the places in the order over which that takes `size_bytes` more."""

    source: int
    load: int
    start: int
    stop: int
    size_bytes: int


def forwarded(program: OrderedProgram, room_bytes: int) -> Forwarded:
    """The program without the loads that an SRAM of `room_bytes` makes needless in its order."""
    return _Forwarding(program).run(room_bytes)


@dataclass(slots=True)
class _Forwarding:
    program: OrderedProgram

    @property
    def found(self) -> Dependencies:
        return self.program.found

    @property
    def written(self) -> Sequence[Written]:
        return self.program.written

    def run(self, room_bytes: int) -> Forwarded:
        """Choose links, and rewrite the program."""
        links = self._links()
        links.sort(key=lambda link: (link.stop - link.start, link.load))
        live = self.program.live_bytes(self.program.begins)
        sources: dict[int, int] = {}
        for link in links:
            span = live[link.start : link.stop]
            if len(span) and int(span.max()) + link.size_bytes > room_bytes:
                continue
            span += link.size_bytes
            sources[link.load] = link.source
        return self._rewritten(sources)

    def _links(self) -> list[_Link]:
        """Each load with what filled or stored the same bytes last."""
        last: dict[_Key, int] = {}
        links = []
        for at, number in enumerate(self.program.order):
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
                    buffer = self.program.slot(source)
                    start = self.program.ends[buffer]
                    size = self.found.buffers[buffer].size_bytes
                    links.append(_Link(source, number, start, max(start, at), size))
        return links

    def _key(self, number: int, reads: bool) -> _Key | None:
        """What of which place in the DDR a transfer moves, and how it lies in the slot; None where
        the slot is filled or stored by several."""
        item = self.written[number]
        outer = item.instruction.reads[0] if reads else item.instruction.writes[0]
        inner = item.instruction.writes[0] if reads else item.instruction.reads[0]
        use = self.found.buffers[self.program.slot(number)]
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
        found, slot = self.found, self.program.slot
        roots = self._roots(sources)
        changes = Changes()
        for load, root in roots.items():
            changes.waits[load] = found.buffers[slot(root)].writers
        for store in self._useless_stores(sources, roots):
            changes.waits[store] = found.buffers[slot(store)].writers
        buffer_of = {slot(load): slot(root) for load, root in roots.items()}
        for number, touched in enumerate(found.buffers_of):
            if number in changes.waits or buffer_of.keys().isdisjoint(touched):
                continue
            item = self._redirected(self.written[number], touched, buffer_of)
            changes.items[number] = item, [buffer_of.get(buffer, buffer) for buffer in touched]
        return rewritten(self.written, found, self.program.order, changes)

    def _roots(self, sources: dict[int, int]) -> dict[int, int]:
        """For each load that is left out, the transfer at whose slot its chain begins."""
        roots: dict[int, int] = {}
        for load in sorted(sources, key=lambda number: self.program.place[number]):
            source = sources[load]
            roots[load] = roots.get(source, source)
        return roots

    def _useless_stores(self, sources: dict[int, int], roots: dict[int, int]) -> set[int]:
        """Stores whose every reader is left out."""
        found = self.found
        stores = {root for root in roots.values() if found.lanes[root] is Lane.STORE}
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
