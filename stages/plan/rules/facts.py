"""What the rules look at: a plan and a spec, and what follows from them, worked out once."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stages.hardware.spec import HardwareSpec, Memory
from stages.plan.instructions import NO_EVENT, Buffer, Opcode, Plan, Region
from stages.plan.rules.order import Order, work_out_order
from stages.plan.syntax import Form, form_of
from stages.tensors import LayoutKind

NO_BUFFER = -1
_FARTHEST = 1 << 62
_NEIGHBOURS = 64  # the first holds the region unless live buffers overlap


@dataclass(frozen=True, slots=True)
class Accesses:
    """Every region that an instruction reads or writes, in program order, reads before writes.

    Columns of equal length: the instruction, whether it writes, the memory's number, the bounding
    range `[start, stop)` of bytes, and the live buffer that holds it (`NO_BUFFER` where none
    does). Malformed and empty regions are left out.
    """

    regions: tuple[Region, ...]
    instruction: NDArray[np.int64]
    writes: NDArray[np.bool_]
    memory: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    buffer: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Facts:
    """A plan, the spec that it's judged by, and what follows: its memories, accesses and
    happens-before order, and for each event the instructions that signal and await it."""

    plan: Plan
    spec: HardwareSpec
    memories: Mapping[str, Memory]
    accesses: Accesses
    order: Order
    signals: Mapping[int, list[int]]
    waits: Mapping[int, list[int]]

    def in_bounds(self, region: Region) -> bool:
        """Whether a region keeps to the bytes of its memory that a plan may use."""
        memory = self.memories[region.memory]
        return memory.reserved_bytes <= region.address and (
            region.stop_address <= memory.size_bytes
        )


def work_out_facts(plan: Plan, spec: HardwareSpec) -> Facts:
    """Everything that rules share."""
    memories = {memory.name: memory for memory in (spec.sram, spec.ddr)}
    return Facts(
        plan,
        spec,
        memories,
        _accesses(plan, memories),
        work_out_order(plan),
        _by_event(plan, Opcode.SIGNAL_EVENT),
        _by_event(plan, Opcode.WAIT_EVENT),
    )


def _by_event(plan: Plan, opcode: Opcode) -> dict[int, list[int]]:
    """The instructions of a class by their event; `operands` reports those without one."""
    places: dict[int, list[int]] = {}
    for index, row in enumerate(plan.instructions):
        if row.opcode is opcode and row.event != NO_EVENT:
            places.setdefault(row.event, []).append(index)
    return places


def malformed(region: Region, memories: Mapping[str, Memory]) -> str:
    """Why a region can't be looked at, or nothing."""
    if region.memory not in memories:
        return f"there is no memory {region.memory}; there are {' and '.join(memories)}"
    if min(region.shape, default=0) < 0:
        return "an extent is negative"
    if region.layout.quantum < 1:
        return "its layout's quantum is below 1"
    if region.layout.kind is not LayoutKind.ROW_MAJOR and len(region.shape) < 3:
        return f"layout {region.layout} needs at least 3 axes"
    axes = len(region.physical_shape)
    if len(region.strides) != axes:
        return f"it has {len(region.strides)} strides for {axes} axes in memory"
    if min(region.strides, default=0) < 0:
        return "a stride is negative"
    if not (region.address > -_FARTHEST and region.stop_address < _FARTHEST):
        return "its addresses are beyond any memory"
    return ""


def instruction_regions(plan: Plan) -> Iterator[tuple[int, bool, Region]]:
    """Each instruction's number with each region, and whether it's written; reads first."""
    for index, instruction in enumerate(plan.instructions):
        for region in instruction.reads:
            yield index, False, region
        for region in instruction.writes:
            yield index, True, region


def _accesses(plan: Plan, memories: Mapping[str, Memory]) -> Accesses:
    numbers = {name: number for number, name in enumerate(memories)}
    spans: dict[tuple[str, Form], int] = {}
    rows: list[tuple[int, bool, int, int, int]] = []
    regions: list[Region] = []
    for index, writes, region in instruction_regions(plan):
        key = (region.memory, form_of(region))
        if (span := spans.get(key)) is None:
            broken = malformed(replace(region, address=0), memories)
            span = spans[key] = 0 if broken else region.stop_address - region.address
        if span and -_FARTHEST < region.address < _FARTHEST - span:
            number = numbers[region.memory]
            rows.append((index, writes, number, region.address, region.address + span))
            regions.append(region)
    table = np.array(rows, np.int64).reshape(-1, 5)
    buffers = find_buffers(plan, regions, table[:, 0].tolist(), table[:, 4].tolist())
    return Accesses(
        tuple(regions),
        table[:, 0],
        table[:, 1].astype(np.bool_),
        table[:, 2],
        table[:, 3],
        table[:, 4],
        np.array(buffers, np.int64),
    )


def find_buffers(
    plan: Plan, regions: Sequence[Region], instructions: Sequence[int], stops: Sequence[int]
) -> list[int]:
    """The buffer that holds each region at its instruction; instructions must not decrease."""
    live = LiveBuffers(plan.buffers)
    found = []
    for region, instruction, stop in zip(regions, instructions, stops, strict=True):
        live.advance(instruction)
        found.append(live.holder(region.memory, region.address, stop))
    return found


class LiveBuffers:
    """The buffers that are live at an instruction that only moves forward."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self._buffers = buffers
        numbers = [i for i, buffer in enumerate(buffers) if buffer.start < buffer.stop]
        self._births = sorted(numbers, key=lambda number: buffers[number].start, reverse=True)
        self._deaths = sorted(numbers, key=lambda number: buffers[number].stop, reverse=True)
        self._live: dict[str, list[tuple[int, int]]] = {}

    def advance(self, instruction: int) -> list[int]:
        """Move on to an instruction; gives the buffers born on the way that are still live."""
        born = []
        while self._births and self._buffers[self._births[-1]].start <= instruction:
            number = self._births.pop()
            buffer = self._buffers[number]
            if buffer.stop > instruction:
                insort(self._live.setdefault(buffer.memory, []), (buffer.address, number))
                born.append(number)
        while self._deaths and self._buffers[self._deaths[-1]].stop <= instruction:
            number = self._deaths.pop()
            buffer = self._buffers[number]
            row = self._live.get(buffer.memory, [])
            place = bisect_right(row, (buffer.address, number)) - 1
            if place >= 0 and row[place] == (buffer.address, number):
                del row[place]
        return born

    def holder(self, memory: str, start: int, stop: int) -> int:
        """The live buffer that holds `[start, stop)`, or `NO_BUFFER`."""
        row = self._live.get(memory, [])
        place = bisect_right(row, (start, len(self._buffers))) - 1
        for _, number in reversed(row[max(0, place + 1 - _NEIGHBOURS) : place + 1]):
            buffer = self._buffers[number]
            if buffer.address + buffer.size_bytes >= stop:
                return number
        return NO_BUFFER
