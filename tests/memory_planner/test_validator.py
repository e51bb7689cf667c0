"""The judge: a sound placement, and one for each reason that breaks only it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.memory_planner.problem import Buffer, Problem
from stages.memory_planner.solution import Solution
from stages.memory_planner.validator import faults
from tests.memory_planner.cases import tiny_problems

TASK = Problem(
    (
        Buffer("a", 0, 4, 6, alignment_bytes=2),
        Buffer("b", 2, 6, 4),
        Buffer("c", 4, 8, 5),
        Buffer("d", 0, 8, 2, fixed_offset_bytes=10),
    ),
    12,
)
SOUND = {"a": 0, "b": 6, "c": 1, "d": 10}


def test_a_sound_placement_has_no_faults() -> None:
    assert faults(TASK, Solution(SOUND)) == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"b": 5}, "buffers a and b share bytes [5, 6) over [2, 4)"),
        ({"c": 2}, "buffers c and b share bytes [6, 7) over [4, 6)"),
        ({"c": -1}, "buffer c lies at -1, below 0"),
        ({"b": 12}, "buffer b ends at 16, past the capacity of 12 B"),
        ({"d": 11}, "buffer d lies at 11, but is fixed at 10"),
        ({"e": 0}, "an offset for e, which is no buffer"),
    ],
)
def test_each_fault_is_named(change: dict[str, int], reason: str) -> None:
    assert reason in faults(TASK, Solution(SOUND | change))


def test_an_offset_must_be_aligned_and_given() -> None:
    task = Problem((Buffer("a", 0, 1, 2, alignment_bytes=4),), 12)
    assert faults(task, Solution({"a": 6})) == ("buffer a lies at 6, no multiple of 4",)
    assert faults(task, Solution({})) == ("buffer a has no offset",)


@given(tiny_problems(), st.lists(st.integers(0, 6), min_size=7, max_size=7))
def test_collisions_are_those_that_bytes_show(task: Problem, offsets: list[int]) -> None:
    """Painting each byte at each instant is slow and plain."""
    solution = Solution({item.name: at for item, at in zip(task.buffers, offsets, strict=False)})
    owners: dict[tuple[int, int], str] = {}
    clash = False
    for item in task.buffers:
        start = solution.offsets[item.name]
        for instant in range(item.lower, item.upper):
            for address in range(start, start + item.size_bytes):
                clash |= owners.setdefault((instant, address), item.name) != item.name
    assert clash == any("share bytes" in reason for reason in faults(task, solution))
