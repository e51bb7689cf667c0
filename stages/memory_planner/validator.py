"""The judge of solutions: it knows what a buffer is, and nothing of how offsets are found."""

from __future__ import annotations

from stages.memory_planner.problem import Buffer, Problem
from stages.memory_planner.solution import Solution


def faults(problem: Problem, solution: Solution) -> tuple[str, ...]:
    """Every reason why offsets don't solve a problem, in the order of its buffers; none if they do.

    Checks that each buffer has an offset and no other name has one, that offsets are aligned,
    where they were fixed, and within the capacity, and that no two live buffers share a byte.
    """
    found = []
    placed = []
    for buffer in problem.buffers:
        offset = solution.offsets.get(buffer.name)
        if offset is None:
            found.append(f"buffer {buffer.name} has no offset")
            continue
        placed.append((offset, buffer))
        found += _faults_alone(buffer, offset, problem.capacity_bytes)
    known = {buffer.name for buffer in problem.buffers}
    strangers = [name for name in solution.offsets if name not in known]
    found += [f"an offset for {name}, which is no buffer" for name in strangers]
    return (*found, *_collisions(placed))


def _faults_alone(buffer: Buffer, offset: int, capacity_bytes: int) -> list[str]:
    found = []
    name, end = buffer.name, offset + buffer.size_bytes
    if offset < 0:
        found.append(f"buffer {name} lies at {offset}, below 0")
    if end > capacity_bytes:
        found.append(f"buffer {name} ends at {end}, past the capacity of {capacity_bytes} B")
    if offset % buffer.alignment_bytes:
        found.append(f"buffer {name} lies at {offset}, no multiple of {buffer.alignment_bytes}")
    fixed = buffer.fixed_offset_bytes
    if fixed is not None and offset != fixed:
        found.append(f"buffer {name} lies at {offset}, but is fixed at {fixed}")
    return found


def _collisions(placed: list[tuple[int, Buffer]]) -> list[str]:
    """Pairs that share a byte at an instant, by a sweep over the addresses."""
    found = []
    active: list[tuple[int, Buffer]] = []
    for offset, buffer in sorted(placed, key=lambda item: (item[0], item[1].name)):
        active = [item for item in active if item[0] + item[1].size_bytes > offset]
        for other_offset, other in active:
            start, stop = max(buffer.lower, other.lower), min(buffer.upper, other.upper)
            if start < stop:
                low, high = offset, min(offset + buffer.size_bytes, other_offset + other.size_bytes)
                found.append(
                    f"buffers {other.name} and {buffer.name} share bytes [{low}, {high}) "
                    f"over [{start}, {stop})"
                )
        active.append((offset, buffer))
    return found
