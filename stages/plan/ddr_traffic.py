"""A plan's traffic with the DDR, and what the caches of a device do with it: the lines that hit
and miss, and the constants that stay on chip.

Caches are looked up in program order, by transfers alone: a vector instruction that reads a table
picks rows that only the data knows, and the host has caches of its own. An inference finds in the
cache what the one before it left; constants that are kept were kept by the one before it too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stages.hardware.cost import CacheUse
from stages.hardware.interleave import pattern_of
from stages.hardware.lru import UNTOUCHED, LineCache, Touched
from stages.hardware.spec import Cache, HardwareSpec
from stages.plan.instructions import DDR, Instruction, Opcode, Plan, Region

Lines = NDArray[np.int64]
_Numbered = tuple[int, Instruction]
_SHORTEST_PART = 16


def ddr_bytes(plan: Plan) -> int:
    """Bytes that a plan's transfers read from and write to the DDR, were there no cache."""
    return sum(
        region.size_bytes
        for instruction in plan.instructions
        if instruction.opcode is Opcode.DMA_COPY
        for region in (*instruction.reads, *instruction.writes)
        if region.memory == DDR
    )


def cache_uses(
    plan: Plan, spec: HardwareSpec, cache: Cache, kept: KeptConstants
) -> list[CacheUse | None]:
    """For each instruction what it found in the cache; None for those that don't look there.

    Constants that are kept on chip pass the cache by.
    """
    lines = LineCache(cache, spec.ddr.size_bytes)
    footprints = _Footprints(cache.line_bytes)
    transfers = [
        (index, instruction)
        for index, instruction in enumerate(plan.instructions)
        if _looks_there(instruction) and not kept.holds(instruction)
    ]
    uses: list[CacheUse | None] = [None] * len(plan.instructions)
    first_time: list[bytes] = []
    for part in _parts(transfers):
        first_time.append(lines.snapshot())
        _look_up(part, lines, footprints, uses)
    for part, before in zip(_parts(transfers), first_time, strict=True):
        if lines.snapshot() == before:
            break  # from here on the second inference finds what the first one found
        _look_up(part, lines, footprints, uses)
    return uses


def _parts(transfers: Sequence[_Numbered]) -> Iterator[Sequence[_Numbered]]:
    """Stretches of the program: short ones first, as a small cache soon forgets."""
    start = 0
    while start < len(transfers):
        stop = max(start + _SHORTEST_PART, 2 * start)
        yield transfers[start:stop]
        start = stop


def _look_up(
    transfers: Sequence[_Numbered],
    lines: LineCache,
    footprints: _Footprints,
    uses: list[CacheUse | None],
) -> None:
    for index, instruction in transfers:
        source, target = instruction.reads[0], instruction.writes[0]
        uses[index] = CacheUse(
            _touch(lines, footprints, source, write=False),
            _touch(lines, footprints, target, write=True),
        )


def _looks_there(instruction: Instruction) -> bool:
    """Whether an instruction moves something to or from `ddr`."""
    if instruction.opcode is not Opcode.DMA_COPY:
        return False
    return DDR in (instruction.reads[0].memory, instruction.writes[0].memory)


def _touch(lines: LineCache, footprints: _Footprints, region: Region, *, write: bool) -> Touched:
    if region.memory != DDR:
        return UNTOUCHED
    found = footprints.of(region)
    if isinstance(found, tuple):
        return lines.touch_span(*found, write)
    return lines.touch_lines(found, write)


@dataclass(slots=True)
class _Footprints:
    """The lines that regions touch. Equal boxes at equal places within a line are the same lines
    further on, and are worked out once."""

    line_bytes: int
    known: dict[object, tuple[int, int] | Lines] = field(default_factory=dict)

    def of(self, region: Region) -> tuple[int, int] | Lines:
        """The lines [first, stop), or each of them (int64, ascending)."""
        first, within = divmod(region.address, self.line_bytes)
        physical = region.physical_shape
        key = (within, physical, region.strides, region.dtype.size_bytes)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._relative(within, region)
        if isinstance(found, tuple):
            return (first + found[0], first + found[1])
        return found + first

    def _relative(self, within: int, region: Region) -> tuple[int, int] | Lines:
        physical = region.physical_shape
        if 0 in physical:
            return (0, 0)
        pattern = pattern_of(physical, region.strides, region.dtype.size_bytes)
        starts = np.array([within], dtype=np.int64)
        for extent, stride in pattern.loops:
            steps = np.arange(extent, dtype=np.int64) * stride
            starts = (steps[:, None] + starts[None, :]).reshape(-1)
        first = starts // self.line_bytes
        last = (starts + (pattern.run_bytes - 1)) // self.line_bytes
        widest = int((last - first).max())
        lines = (first[:, None] + np.arange(widest + 1)).reshape(-1)
        if widest:
            lines = np.minimum(lines, np.repeat(last, widest + 1))
        steps = np.diff(lines)
        if len(steps) and int(steps.min()) < 0:
            lines.sort()
            steps = np.diff(lines)
        lines = lines[np.concatenate(([True], steps > 0))]
        if int(lines[-1] - lines[0]) + 1 == len(lines):
            return (int(lines[0]), int(lines[-1]) + 1)
        return lines


@dataclass(frozen=True, slots=True)
class KeptConstants:
    """The constants that stay on chip: ranges of `ddr`, in order of address."""

    starts: Sequence[int] = ()
    stops: Sequence[int] = ()

    def holds(self, instruction: Instruction) -> bool:
        """Whether a transfer reads a constant that is kept."""
        if not self.starts or not instruction.reads:
            return False
        return self._covers(instruction.reads[0])

    def _covers(self, region: Region) -> bool:
        if region.memory != DDR:
            return False
        at = bisect_right(self.starts, region.address) - 1
        return at >= 0 and region.address < self.stops[at]


NOTHING_KEPT = KeptConstants()


def kept_constants(plan: Plan, spec: HardwareSpec) -> KeptConstants:
    """The constants that the device keeps from one inference to the next: in the order in which
    transfers first read them, each that still fits, whole."""
    if spec.weight_cache is None:
        return NOTHING_KEPT
    ranges = sorted(
        (item.region.address, item.region.stop_address)
        for item in plan.constants
        if item.region.memory == DDR
    )
    every = KeptConstants([start for start, _ in ranges], [stop for _, stop in ranges])
    free = spec.weight_cache.size_bytes
    seen: set[int] = set()
    kept = []
    for instruction in plan.instructions:
        if instruction.opcode is not Opcode.DMA_COPY or not every.holds(instruction):
            continue
        at = bisect_right(every.starts, instruction.reads[0].address) - 1
        if at in seen:
            continue
        seen.add(at)
        start, stop = ranges[at]
        if stop - start <= free:
            free -= stop - start
            kept.append((start, stop))
    kept.sort()
    return KeptConstants([start for start, _ in kept], [stop for _, stop in kept])
