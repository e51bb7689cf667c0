"""A memory that is filled and emptied while time goes on: where a buffer may lie, and from when.

What was freed is remembered with the time from which it is, and with the instructions that touched
it last: whoever lies there next must wait for them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter

from stages.compiler.support import placement_alignment
from stages.compiler.tiling.streams import align
from stages.hardware.spec import HardwareSpec

Span = tuple[int, int]
Nodes = tuple[int, ...]

_PATIENCE_CYCLES = 20_000
"""At an end of the memory all spots are alike whose bytes come free within as many cycles."""


class Corner(Enum):
    """Where a buffer had best lie: wherever bytes are free the soonest, or near an end of the
    memory, so that small ones don't lie strewn between large ones."""

    SOONEST = "soonest"
    LOW = "low"
    HIGH = "high"


@dataclass(slots=True)
class _Segment:
    """`[start, end)`; free from `time` on, or taken. `nodes` touched it last."""

    start: int
    end: int
    free: bool
    time: int
    nodes: Nodes


_end_of = attrgetter("end")


@dataclass(frozen=True, slots=True)
class Spot:
    """An address, the time from which it is free, and the instructions that touched it last."""

    address: int
    time: int
    nodes: Nodes


class Pool:
    """A memory of the bytes `[base, limit)`; buffers begin at multiples of the alignment."""

    def __init__(self, base: int, limit: int, alignment: int) -> None:
        self._alignment = alignment
        self._segments = [_Segment(align(base, alignment), limit, True, 0, ())]

    def find(
        self,
        size_bytes: int,
        now: int,
        avoid: Sequence[Span] = (),
        corner: Corner = Corner.SOONEST,
    ) -> Spot | None:
        """The spot that is free the soonest, the lowest of those, or the one nearest to a corner of
        those that are free soon; None where no gap holds the buffer. All times up to `now` are
        alike. `avoid` are bytes that others will take."""
        best: tuple[int, int] | None = None
        grain = 1 if corner is Corner.SOONEST else _PATIENCE_CYCLES
        side = -1 if corner is Corner.HIGH else 1
        for low, high, first in self._gaps(avoid):
            if high - low < size_bytes:
                continue
            for address in self._candidates(low, high, first, size_bytes):
                time = self._time(address, address + size_bytes, first)
                if time < now:
                    time = now
                rank = (time - now) // grain, side * address
                if best is None or rank < best:
                    best = rank
        if best is None:
            return None
        return self._spot(side * best[1], size_bytes)

    def take(self, address: int, size_bytes: int) -> None:
        """Take the bytes of a spot."""
        end = address + size_bytes
        segments = self._segments
        first = bisect_right(segments, address, key=_end_of)
        kept: list[_Segment] = []
        last = first
        while last < len(segments) and segments[last].start < end:
            item = segments[last]
            last += 1
            assert item.free, "taken twice"
            if item.start < address:
                kept.append(_Segment(item.start, address, True, item.time, item.nodes))
            if item.start <= address:
                kept.append(_Segment(address, end, False, 0, ()))
            if end < item.end:
                kept.append(_Segment(end, item.end, True, item.time, item.nodes))
        segments[first:last] = kept

    def spot_at(self, address: int, size_bytes: int) -> Spot | None:
        """The spot at an address; None where some of it is taken."""
        end = address + size_bytes
        segments = self._segments
        for index in range(bisect_right(segments, address, key=_end_of), len(segments)):
            item = segments[index]
            if item.start >= end:
                break
            if not item.free:
                return None
        return self._spot(address, size_bytes)

    def release(self, address: int, time: int, nodes: Nodes) -> None:
        """Free the buffer at an address; `nodes` touched it last, until `time`."""
        segments = self._segments
        index = bisect_right(segments, address, key=_end_of)
        item = segments[index]
        assert item.start == address, "nothing was taken here"
        assert not item.free, "freed twice"
        segments[index] = _Segment(item.start, item.end, True, time, nodes)

    def _gaps(self, avoid: Sequence[Span]) -> list[tuple[int, int, int]]:
        """Free ranges between what is taken and what others will take, and the number of the
        segment in which each begins."""
        found: list[tuple[int, int, int]] = []
        segments = self._segments
        index, count = 0, len(segments)
        while index < count:
            if not segments[index].free:
                index += 1
                continue
            first = index
            while index < count and segments[index].free:
                index += 1
            low, high = segments[first].start, segments[index - 1].end
            for start, end in avoid:
                if end <= low or high <= start:
                    continue
                if low < start:
                    found.append((low, start, first))
                low = max(low, end)
            if low < high:
                found.append((low, high, first))
        return found

    def _candidates(self, low: int, high: int, first: int, size_bytes: int) -> list[int]:
        """Addresses at the ends of a gap, and where its segments begin or end."""
        grain = self._alignment
        top = (high - size_bytes) // grain * grain
        found = {align(low, grain): None, top: None}
        for item in self._segments[first:]:
            if item.start >= high:
                break
            found[align(item.start, grain)] = None
            found[(item.end - size_bytes) // grain * grain] = None
        return [address for address in found if low <= address <= top]

    def _time(self, start: int, end: int, first: int) -> int:
        time = 0
        for item in self._segments[first:]:
            if item.start >= end:
                break
            if item.end > start and item.time > time:
                time = item.time
        return time

    def _spot(self, address: int, size_bytes: int) -> Spot:
        end = address + size_bytes
        time = 0
        nodes: dict[int, None] = {}
        segments = self._segments
        for index in range(bisect_right(segments, address, key=_end_of), len(segments)):
            item = segments[index]
            if item.start >= end:
                break
            time = max(time, item.time)
            nodes.update(dict.fromkeys(item.nodes))
        return Spot(address, time, tuple(nodes))


def pools_of(spec: HardwareSpec) -> dict[str, Pool]:
    """A device's memories by name, all free. What lies in the DDR keeps its address."""
    sram, ddr = spec.sram, spec.ddr
    return {
        sram.name: Pool(sram.reserved_bytes, sram.size_bytes, placement_alignment(sram)),
        ddr.name: Pool(0, ddr.size_bytes, 1),
    }
