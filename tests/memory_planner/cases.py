"""Problems that several tests share, and a brute force that knows nothing but the rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypothesis import strategies as st

from stages.memory_planner.csv_door import parse_problem
from stages.memory_planner.problem import Buffer, Problem

Row = tuple[int, int, int]
INSTANCES = "ABCDEFGHIJK"
"""MiniMalloc's benchmarks, of a capacity of 1,048,576 B."""


def instance(name: str) -> Problem:
    """One of MiniMalloc's benchmarks."""
    folder = Path(__file__).resolve().parents[2] / "measurements" / "minimalloc"
    text = (folder / f"{name}.1048576.csv").read_text(encoding="utf-8")
    return parse_problem(text, 1_048_576, name)


def problem(rows: Sequence[Row], capacity_bytes: int) -> Problem:
    """Buffers b0, b1, ... from (lower, upper, size)."""
    buffers = (Buffer(f"b{place}", *row) for place, row in enumerate(rows))
    return Problem(tuple(buffers), capacity_bytes)


# Never more than five bytes live at once, and yet no placement in five.
FRAGMENTED: tuple[Row, ...] = (
    (6, 8, 3),
    (5, 7, 1),
    (4, 7, 1),
    (3, 5, 3),
    (4, 6, 1),
    (7, 8, 2),
    (3, 4, 2),
)


@st.composite
def tiny_problems(draw: st.DrawFn) -> Problem:
    """Up to seven buffers of up to four bytes, some aligned, some fixed, in about as many bytes as
    are live at once: where there is more or less, nothing is left to search."""
    buffers = []
    for place in range(7 - draw(st.integers(0, 6))):
        lower = draw(st.integers(0, 6))
        upper = draw(st.integers(lower + 1, 7))
        size = draw(st.integers(1, 4))
        alignment = draw(st.sampled_from([1, 1, 1, 2]))
        fixed = draw(st.sampled_from([*[None] * 12, 0, 2]))
        buffers.append(Buffer(f"b{place}", lower, upper, size, alignment, fixed))
    live = max(
        sum(item.size_bytes for item in buffers if item.lower <= instant < item.upper)
        for instant in range(7)
    )
    return Problem(tuple(buffers), live + draw(st.sampled_from([0, 0, 1, 0, 2, -1])))


def placeable(task: Problem) -> bool:
    """Whether any offsets solve a problem, by trying them all."""
    return _extend(task, [])


def _extend(task: Problem, offsets: list[int]) -> bool:
    if len(offsets) == len(task.buffers):
        return True
    buffer = task.buffers[len(offsets)]
    for offset in range(task.capacity_bytes - buffer.size_bytes + 1):
        if buffer.fixed_offset_bytes not in (None, offset) or offset % buffer.alignment_bytes:
            continue
        apart = all(
            offset >= other + task.buffers[place].size_bytes
            or other >= offset + buffer.size_bytes
            or not buffer.overlaps(task.buffers[place])
            for place, other in enumerate(offsets)
        )
        if apart and _extend(task, [*offsets, offset]):
            return True
    return False
