"""The rule about an instruction that writes over what it reads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stages.plan.instructions import Instruction, Kernel, Opcode, Plan, Region
from stages.plan.rules.boxes import box_of, boxes_overlap
from stages.plan.rules.facts import Accesses, Facts
from stages.plan.rules.races import ranges_meet, verb
from stages.plan.rules.violation import Finding, Findings
from stages.recipe.operators import is_elementwise


def in_place(facts: Facts) -> Findings:
    """An instruction that writes over what it reads takes its place exactly, element by element.

    Engines stream: a result may be stored before a later part of an operand is loaded. A region
    written shares no byte with one that the same instruction reads, unless the two are the same
    bytes in the same order, elements of one size and shape, and all operators on the way from the
    one to the other compute each element from those at the same place, as an accumulator's sum
    does. No two regions written share any byte.

    Cure: write to a buffer of its own.
    """
    accesses = facts.accesses
    for one, other in _touching(accesses):
        first, second = accesses.regions[one], accesses.regions[other]
        index = int(accesses.instruction[one])
        replaces = (
            not accesses.writes[one]
            and _streamed(first) == _streamed(second)
            and _maps(facts.plan, facts.plan.instructions[index], first, second)
        )
        if not replaces and boxes_overlap(box_of(first), box_of(second)):
            yield Finding(
                f"instruction {index} {verb(accesses, one)} and {verb(accesses, other)}, which "
                "share bytes",
                "write to a buffer of its own",
                index,
            )


def _touching(accesses: Accesses) -> Iterator[tuple[int, int]]:
    """Numbers of accesses of one instruction, the second a write, whose bounding ranges meet."""
    count = len(accesses.regions)
    for distance in range(1, count):
        one, other = np.arange(count - distance), np.arange(distance, count)
        same = accesses.instruction[one] == accesses.instruction[other]
        if not same.any():
            return
        hit = same & accesses.writes[other] & ranges_meet(accesses, one, other)
        yield from zip(one[hit].tolist(), other[hit].tolist(), strict=True)


def _streamed(region: Region) -> tuple[object, ...]:
    """Equal for regions of the same bytes in the same order."""
    size = region.dtype.size_bytes
    return region.memory, region.address, size, region.shape, region.layout, region.strides


def _maps(plan: Plan, instruction: Instruction, read: Region, written: Region) -> bool:
    """Whether what is written at each place depends on what is read at that place alone, of the
    regions that lie in the same bytes. A copy onto itself does."""
    if instruction.opcode is Opcode.DMA_COPY:
        return True
    if not 0 <= instruction.kernel < len(plan.kernels):
        return False
    kernel = plan.kernels[instruction.kernel]
    place = next((at for at, item in enumerate(instruction.writes) if item is written), None)
    if place is None or place >= len(kernel.results):
        return False
    return all(
        _is_mapped(kernel, name, kernel.results[place])
        for name, item in zip(kernel.parameters, instruction.reads, strict=False)
        if item is read
    )


def _is_mapped(kernel: Kernel, parameter: str, result: str) -> bool:
    reached = {parameter}
    for operator in kernel.operators:
        if reached.isdisjoint(operator.operands):
            continue
        if not is_elementwise(operator.kind):
            return False
        reached.update(operator.outputs)
    types = kernel.types
    known = all(name in types for name in reached | {result})
    shapes = {types[name].shape for name in reached | {result}} if known else set()
    return len(shapes) == 1
