"""Where what a group reads and writes tile by tile lies in the SRAM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stages.compiler.cascade.stripes import Striped
from stages.compiler.memory.offsets import Placed, Request
from stages.compiler.tiling.streams import Stream


@dataclass(frozen=True, slots=True)
class Slots:
    """Where the tiles of one group lie: addresses of each stream's slots, of the result's slots
    and of the accumulator (an empty tuple and None where there are none)."""

    streams: tuple[tuple[Stream, tuple[Placed, ...]], ...]
    results: tuple[Placed, ...]
    accumulator: Placed | None


@dataclass(frozen=True, slots=True)
class Needed:
    """Slots of one kind: `count` of them, each of `size_bytes`."""

    size_bytes: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True)
class SlotNeeds:
    """The slots that one group needs, by its name: for each stream, for the result where it isn't
    resident, and for the accumulator where it has one. `stem`: what their names begin with."""

    group: str
    stem: str
    streams: tuple[tuple[Stream, Needed], ...]
    result: Needed = Needed()
    accumulator: Needed = Needed()

    @property
    def total_bytes(self) -> int:
        """Bytes of all slots."""
        kinds = (*(needed for _, needed in self.streams), self.result, self.accumulator)
        return sum(needed.size_bytes * needed.count for needed in kinds)

    def requests(self, start: int, stop: int, from_top: bool) -> list[Request]:
        """All of them, live over the groups `[start, stop)`."""
        labelled = [
            *((f"operand{index}", needed) for index, (_, needed) in enumerate(self.streams)),
            ("result", self.result),
            ("accumulator", self.accumulator),
        ]
        return [
            Request(name, needed.size_bytes, start, stop, from_top)
            for label, needed in labelled
            for name in self._names(label, needed)
        ]

    def slots(self, placed: Mapping[str, Placed]) -> Slots:
        """Where they lie, given all that was placed by name."""

        def found(label: str, needed: Needed) -> tuple[Placed, ...]:
            return tuple(placed[name] for name in self._names(label, needed))

        streams = tuple(
            (stream, found(f"operand{index}", needed))
            for index, (stream, needed) in enumerate(self.streams)
        )
        accumulator = next(iter(found("accumulator", self.accumulator)), None)
        return Slots(streams, found("result", self.result), accumulator)

    def _names(self, label: str, needed: Needed) -> list[str]:
        return [f"{self.stem}/{label}.{index}" for index in range(needed.count)]


@dataclass(frozen=True, slots=True)
class PlacedCascade:
    """A cascade with the slots of its groups, by name, and the buffers of what passes in it."""

    striped: Striped
    slots: Mapping[str, Slots]
    buffers: Mapping[str, Placed]
