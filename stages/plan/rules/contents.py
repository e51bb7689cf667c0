"""Rules about what memory holds: written before it's read, constants never written."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from stages.plan.instructions import Buffer, Plan, Region
from stages.plan.rules.addresses import bindings
from stages.plan.rules.boxes import box_of, boxes_overlap
from stages.plan.rules.facts import Facts, find_buffers, malformed
from stages.plan.rules.violation import Finding, Findings, say_range, say_region
from stages.plan.syntax import print_name


class Written:
    """Which bytes of a buffer have been written since it was born.

    One range is kept as two numbers, which is all that most buffers need; the rest goes to a
    bitmap.
    """

    def __init__(self, buffer: Buffer) -> None:
        self._base = buffer.address
        self._size = buffer.size_bytes
        self._start = self._stop = buffer.address
        self._bits: NDArray[np.bool_] | None = None
        self._merged = (buffer.address, buffer.address)  # the part of the range in the bitmap
        self._unseen = 0  # bytes marked since the bitmap was last looked at whole

    def write(self, region: Region, stop: int) -> None:
        """Mark a region inside the buffer; `stop` is its stop address."""
        start = region.address
        if region.contiguous_bytes == stop - start and self._join(start, stop):
            return
        if self._start <= start and stop <= self._stop:
            return
        if self._bits is None:
            self._bits = np.zeros(self._size, np.bool_)
        self._view(self._bits, region)[...] = True
        self._unseen += region.size_bytes

    def _join(self, start: int, stop: int) -> bool:
        if self._start == self._stop:
            self._start, self._stop = start, stop
        elif start <= self._stop and self._start <= stop:
            self._start, self._stop = min(self._start, start), max(self._stop, stop)
        else:
            return False
        return True

    def holds(self, region: Region, stop: int) -> bool:
        """Whether every byte of a region inside the buffer has been written."""
        if self._start <= region.address and stop <= self._stop:
            return True
        if self._bits is None:
            return False
        if (self._start, self._stop) != self._merged:
            self._merged = (self._start, self._stop)
            self._bits[self._start - self._base : self._stop - self._base] = True
        if self._unseen >= self._size - (self._stop - self._start):
            self._unseen = 0
            if self._bits.all():
                self._start, self._stop = self._base, self._base + self._size
                self._bits = None
                return True
        return bool(self._view(self._bits, region).all())

    def _view(self, bits: NDArray[np.bool_], region: Region) -> NDArray[np.bool_]:
        """The bits of a region's bytes."""
        box = box_of(region)
        return np.ndarray(
            (*(extent for extent, _ in box.axes), box.run),
            np.bool_,
            buffer=bits,
            offset=region.address - self._base,
            strides=(*(stride for _, stride in box.axes), 1),
        )


def unwritten(facts: Facts) -> Findings:
    """Every byte is written before it's read.

    In program order, each byte that an instruction reads has been written since the buffer that
    holds it was born, by an instruction or, for constants and inputs, before the run. What an
    earlier buffer left at the same address doesn't count. Outputs are wholly written at the end.

    Cure: copy or compute the bytes before the instruction, or let the buffer live longer.
    """
    plan, accesses = facts.plan, facts.accesses
    written: dict[int, Written] = {}
    sound = _inside(facts)
    for number, region in _held(facts, 0, "constant", "input"):
        _state(written, plan, number).write(region, region.stop_address)
    rows = zip(
        accesses.instruction.tolist(),
        accesses.writes.tolist(),
        accesses.stop.tolist(),
        accesses.buffer.tolist(),
        accesses.regions,
        strict=True,
    )
    for index, writes, stop, number, region in rows:
        if number not in sound:
            continue
        state = _state(written, plan, number)
        if writes:
            state.write(region, stop)
        elif not state.holds(region, stop):
            name = print_name(plan.buffers[number].name)
            yield Finding(
                f"instruction {index} reads {say_region(region)} in buffer %{name}, bytes of "
                f"which nothing has written since instruction {plan.buffers[number].start}",
                "write the bytes first, or let the buffer live longer",
                index,
            )
    last = max(len(plan.instructions) - 1, 0)
    for number, region in _held(facts, last, "output"):
        if not _state(written, plan, number).holds(region, region.stop_address):
            yield Finding(
                f"the output at {say_region(region)} isn't wholly written at the end",
                "copy every tile of the output to its place",
            )


def _state(written: dict[int, Written], plan: Plan, number: int) -> Written:
    if (state := written.get(number)) is None:
        state = written[number] = Written(plan.buffers[number])
    return state


def _held(facts: Facts, instant: int, *words: str) -> list[tuple[int, Region]]:
    """The regions of these bindings, with the buffer that holds each at an instant."""
    regions = [
        binding.region
        for word, binding in bindings(facts.plan)
        if word in words and not malformed(binding.region, facts.memories)
    ]
    regions = [region for region in regions if region.size_bytes]
    stops = [region.stop_address for region in regions]
    numbers = find_buffers(facts.plan, regions, [instant] * len(regions), stops)
    sound = _inside(facts)
    return [
        (number, region) for number, region in zip(numbers, regions, strict=True) if number in sound
    ]


def _inside(facts: Facts) -> frozenset[int]:
    """The buffers that lie inside their memory; `peak` reports the others."""
    sizes = {memory.name: memory.size_bytes for memory in facts.memories.values()}
    return frozenset(
        number
        for number, item in enumerate(facts.plan.buffers)
        if item.address >= 0 and item.address + item.size_bytes <= sizes.get(item.memory, -1)
    )


def constants(facts: Facts) -> Findings:
    """Constants are never written, and nothing else is loaded over them.

    They are loaded once and every run needs them. No two constants or inputs share a byte.

    Cure: write elsewhere, or load each constant at a place of its own.
    """
    loaded = [
        (f"{word} %{print_name(binding.name)}", word == "constant", binding.region)
        for word, binding in bindings(facts.plan)
        if word != "output" and not malformed(binding.region, facts.memories)
    ]
    loaded = [item for item in loaded if item[2].size_bytes]
    loaded.sort(key=lambda item: (item[2].memory, item[2].address))
    yield from _shared_bytes(loaded)
    yield from _written_constants(facts, [(name, item) for name, fixed, item in loaded if fixed])


def _shared_bytes(loaded: list[tuple[str, bool, Region]]) -> Findings:
    for place, (name, _, region) in enumerate(loaded):
        for other_name, _, other in loaded[place + 1 :]:
            if other.memory != region.memory or other.address >= region.stop_address:
                break
            if boxes_overlap(box_of(region), box_of(other)):
                shared = say_range(other.address, min(region.stop_address, other.stop_address))
                yield Finding(
                    f"{name} and {other_name} share bytes of {region.memory} {shared}",
                    "load each at a place of its own",
                )


def _written_constants(facts: Facts, fixed: list[tuple[str, Region]]) -> Findings:
    accesses = facts.accesses
    for memory in {region.memory for _, region in fixed}:
        mine = [(name, region) for name, region in fixed if region.memory == memory]
        starts = [region.address for _, region in mine]
        reach = np.maximum.accumulate([region.stop_address for _, region in mine])
        number = list(facts.memories).index(memory)
        hits = np.flatnonzero(accesses.writes & (accesses.memory == number))
        for access in hits.tolist():
            stop, start = int(accesses.stop[access]), int(accesses.start[access])
            place = bisect_right(starts, stop - 1) - 1
            while place >= 0 and int(reach[place]) > start:
                name, region = mine[place]
                written = accesses.regions[access]
                if boxes_overlap(box_of(region), box_of(written)):
                    index = int(accesses.instruction[access])
                    yield Finding(
                        f"instruction {index} writes {say_region(written)} over {name}",
                        "write elsewhere: constants are loaded once, for every run",
                        index,
                    )
                place -= 1
