"""A program in some order: where each instruction stands, and from where to where buffers live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stages.compiler.emit.program import Written
from stages.compiler.schedule.dependencies import Dependencies, Lane
from stages.plan.instructions import SRAM, Region


@dataclass(slots=True)
class OrderedProgram:
    """A program, all its dependencies (`Reach.ALL`), and an order of it.

    `place`: the place of each instruction in the order. `begins`, `ends`: for each buffer the place
    of its first touch, and one past that of its last.
    """

    written: Sequence[Written]
    found: Dependencies
    order: Sequence[int]
    place: list[int] = field(init=False)
    begins: dict[int, int] = field(init=False)
    ends: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.place = [0] * len(self.order)
        self.begins, self.ends = {}, {}
        for at, number in enumerate(self.order):
            self.place[number] = at
            for buffer in self.found.buffers_of[number]:
                self.begins.setdefault(buffer, at)
                self.ends[buffer] = at + 1

    def slot(self, number: int) -> int:
        """The slot that a load fills or a store empties."""
        return self.found.buffers_of[number][0 if self._is_store(number) else 1]

    def inner(self, number: int) -> Region:
        """What a load fills or a store empties of its slot."""
        item = self.written[number].instruction
        return item.reads[0] if self._is_store(number) else item.writes[0]

    def outer(self, number: int) -> Region:
        """What a load reads or a store writes of the DDR."""
        item = self.written[number].instruction
        return item.writes[0] if self._is_store(number) else item.reads[0]

    def _is_store(self, number: int) -> bool:
        return self.found.lanes[number] is Lane.STORE

    def opened(self) -> dict[int, int]:
        """`begins`, but for streams of constants: while one tile of a stream is worked on the next
        is loaded, so each takes its bytes from where the one before it begins."""
        opened = dict(self.begins)
        last: dict[str, int] = {}
        for number in self.order:
            if self.found.lanes[number] is Lane.LOAD and self.found.buffers_of[number][0] < 0:
                name, slot = self.written[number].reads[0].name, self.slot(number)
                if name in last:
                    opened[slot] = min(opened[slot], self.begins[last[name]])
                last[name] = slot
        return opened

    def live_bytes(self, begins: dict[int, int]) -> NDArray[np.int64]:
        """Bytes of the SRAM that are taken at each place of the order, if buffers live from
        `begins` on."""
        change = np.zeros(len(self.order) + 1, dtype=np.int64)
        for number, use in enumerate(self.found.buffers):
            if use.place.memory == SRAM and number in begins:
                change[begins[number]] += use.size_bytes
                change[self.ends[number]] -= use.size_bytes
        return np.cumsum(change)
