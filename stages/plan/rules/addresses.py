"""Rules about single regions: form, alignment, bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import numpy as np

from stages.plan.instructions import Binding, Opcode, Plan, Region
from stages.plan.rules.facts import Facts, instruction_regions, malformed
from stages.plan.rules.violation import Finding, Findings, say_range, say_region
from stages.plan.syntax import Form, form_of, print_name


def region(facts: Facts) -> Findings:
    """Every region is a box of a memory that the device has.

    Its memory is `sram` or `ddr`, its layout suits its number of axes, it has one stride for each
    axis in memory order, and no extent or stride is negative. Other rules leave out regions that
    break this one.

    Cure: mend the region; strides count bytes, one for each axis of the layout's memory order.
    """
    sound: set[tuple[object, ...]] = set()
    for place, index, item in _all_regions(facts.plan):
        key = (item.memory, item.address, *form_of(item))
        if key in sound:
            continue
        reason = malformed(item, facts.memories)
        if not reason:
            sound.add(key)
        else:
            yield Finding(
                f"{place} has a malformed region {item.memory}+{item.address:#06x}: {reason}",
                "strides count bytes, one for each axis of the layout's memory order",
                index,
            )


def align(facts: Facts) -> Findings:
    """Addresses are multiples of what the hardware can address.

    A buffer begins at a multiple of its memory's `alignment`; both sides of a transfer begin at a
    multiple of the DMA engine's `alignment`; any other region begins at a multiple of its element
    size.

    Cure: move the buffer, or choose tile extents whose byte offsets are multiples.
    """
    for buffer in facts.plan.buffers:
        memory = facts.memories.get(buffer.memory)
        if memory is not None and buffer.address % memory.alignment_bytes:
            yield Finding(
                f"buffer %{print_name(buffer.name)} begins at {buffer.memory}+"
                f"{buffer.address:#06x}, no multiple of {memory.alignment_bytes} B",
                f"place it at a multiple of `memory.{memory.name}.alignment`",
            )
    dma = facts.spec.dma.alignment_bytes
    plan = facts.plan
    for index, _, item in instruction_regions(plan):
        copies = plan.instructions[index].opcode is Opcode.DMA_COPY
        step = dma if copies else item.dtype.size_bytes
        if item.address % step:
            yield Finding(
                f"instruction {index} touches {say_region(item)}, no multiple of {step} B",
                "transfers begin at multiples of `dma.alignment`: choose other tile extents"
                if copies
                else "place the region at a multiple of its element size",
                index,
            )


def elements(facts: Facts) -> Findings:
    """The elements of a region lie apart, each where elements of its type lie.

    No two elements of one region share a byte, and every stride over more than one element is a
    multiple of the element's size. A region that an instruction reads may repeat its elements, by
    strides of zero.

    Cure: mend the strides.
    """
    plan = facts.plan
    bound = (
        (f"{word} %{print_name(binding.name)}", None, binding.region)
        for word, binding in bindings(plan)
    )
    written = (
        (f"instruction {index}", index, item)
        for index, writes, item in instruction_regions(plan)
        if writes
    )
    read = (
        (f"instruction {index}", index, item)
        for index, writes, item in instruction_regions(plan)
        if not writes
    )
    yield from _crowded_regions(facts, chain(bound, written), _steps)
    yield from _crowded_regions(facts, read, _steps_that_move)


def _crowded_regions(
    facts: Facts,
    regions: Iterable[tuple[str, int | None, Region]],
    steps: Callable[[Region], list[tuple[int, int]]],
) -> Findings:
    known: dict[Form, str] = {}
    for place, index, item in regions:
        form = form_of(item)
        if form not in known:
            fine = malformed(item, facts.memories) or not item.size_bytes
            known[form] = "" if fine else _crowded(item.dtype.size_bytes, steps(item))
        if known[form]:
            yield Finding(
                f"{place} has a region {say_region(item)} by strides {list(item.strides)}: "
                f"{known[form]}",
                "mend the strides: every element has bytes of its own",
                index,
            )


def _steps(item: Region) -> list[tuple[int, int]]:
    """Stride and extent of each axis of more than one element, the shortest stride first."""
    axes = zip(item.strides, item.physical_shape, strict=True)
    return sorted(axis for axis in axes if axis[1] > 1)


def _steps_that_move(item: Region) -> list[tuple[int, int]]:
    return [axis for axis in _steps(item) if axis[0]]


def _crowded(size: int, steps: list[tuple[int, int]]) -> str:
    """How elements of `size` bytes get in each other's way; nothing where each axis steps over all
    within it."""
    span = size
    for stride, extent in steps:
        if stride % size:
            return f"{stride} is no multiple of {size} B"
        if stride < span:
            return f"{stride} steps into the {span} B before it"
        span += (extent - 1) * stride
    return ""


def bounds(facts: Facts) -> Findings:
    """Every region keeps to the bytes of its memory that a plan may use.

    The bytes reserved at a memory's start aren't the compiler's, and no region reaches past its
    end.

    Cure: place the region inside; if the memory of the real device is larger, say so in its spec.
    """
    for word, binding in bindings(facts.plan):
        item = binding.region
        if malformed(item, facts.memories) or not item.size_bytes or facts.in_bounds(item):
            continue
        yield _outside(facts, f"{word} %{print_name(binding.name)}", item, None)
    accesses = facts.accesses
    lowest = np.array([memory.reserved_bytes for memory in facts.memories.values()])
    highest = np.array([memory.size_bytes for memory in facts.memories.values()])
    memory = accesses.memory
    outside = (accesses.start < lowest[memory]) | (accesses.stop > highest[memory])
    reported: set[tuple[str, int, int]] = set()
    for access in np.flatnonzero(outside).tolist():
        item = accesses.regions[access]
        key = (item.memory, item.address, item.stop_address)
        if key not in reported:
            reported.add(key)
            index = int(accesses.instruction[access])
            yield _outside(facts, f"instruction {index}", item, index)


def _outside(facts: Facts, place: str, item: Region, index: int | None) -> Finding:
    memory = facts.memories[item.memory]
    return Finding(
        f"{place} touches {item.memory} at {say_range(item.address, item.stop_address)}; "
        f"a plan may use {say_range(memory.reserved_bytes, memory.size_bytes)}",
        f"place it inside, or mend `memory.{memory.name}.size` in the hardware spec",
        index,
    )


def bindings(plan: Plan) -> Iterator[tuple[str, Binding]]:
    """Constants, inputs and outputs, each with the word for it."""
    for word, group in (
        ("constant", plan.constants),
        ("input", plan.inputs),
        ("output", plan.outputs),
    ):
        for binding in group:
            yield word, binding


def _all_regions(plan: Plan) -> Iterator[tuple[str, int | None, Region]]:
    for word, binding in bindings(plan):
        yield f"{word} %{print_name(binding.name)}", None, binding.region
    for index, _, item in instruction_regions(plan):
        yield f"instruction {index}", index, item
