"""Buffers, their load over time, and the table that holds them."""

from __future__ import annotations

import pytest
from hypothesis import given

from stages.errors import InputError
from stages.memory_planner.csv_door import parse_problem, print_solution
from stages.memory_planner.problem import Buffer, Load, Problem, max_live_bytes, profile
from stages.memory_planner.solution import Solution
from stages.memory_planner.sweep import sweep
from tests.memory_planner.cases import problem, tiny_problems


def test_lifetimes_are_half_open() -> None:
    task = problem([(0, 4, 3), (4, 6, 5), (2, 5, 1)], 9)
    assert profile(task.buffers) == (Load(0, 2, 3), Load(2, 4, 4), Load(4, 5, 6), Load(5, 6, 5))
    assert max_live_bytes(task.buffers) == 6
    assert not task.buffers[0].overlaps(task.buffers[1])


def test_fragmentation_is_peak_over_live_bytes() -> None:
    task = problem([(0, 4, 3), (4, 6, 6)], 9)
    assert Solution({"b0": 0, "b1": 3}).fragmentation(task) == 1.5
    assert Solution({}).fragmentation(Problem((), 0)) == 1.0


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((3, 3, 1), "lifetime [3, 3) is empty"),
        ((0, 1, 0), "size is 0 B"),
        ((0, 1, 1, 0), "alignment is 0 B"),
        ((0, 1, 1, 4, 6), "fixed offset 6 is no multiple"),
    ],
)
def test_a_wrong_buffer_is_refused(numbers: tuple[int, ...], words: str) -> None:
    with pytest.raises(InputError) as raised:
        Buffer("b", *numbers)
    assert words in str(raised.value)


def test_names_are_told_apart() -> None:
    with pytest.raises(InputError, match="two buffers are named b"):
        Problem((Buffer("b", 0, 1, 1), Buffer("b", 1, 2, 1)), 9)
    with pytest.raises(InputError, match="can't have -1 B"):
        Problem((), -1)


@given(tiny_problems())
def test_sections_keep_exactly_the_pairs_that_meet(task: Problem) -> None:
    sections = sweep(task.buffers)
    for one, buffer in enumerate(task.buffers):
        meets = {
            other
            for other, item in enumerate(task.buffers)
            if other != one and buffer.overlaps(item)
        }
        assert set(sections.neighbours[one]) == meets
    for here, there in zip(sections.members, sections.members[1:], strict=False):
        assert not set(here) <= set(there)
        assert not set(there) <= set(here)


def test_a_table_is_read_and_written() -> None:
    text = "id, size, lower, upper, alignment, offset\nx,4,0,2,,\n\ny,8,1,3,8,8\n"
    task = parse_problem(text, 16, "t.csv")
    assert task.buffers == (Buffer("x", 0, 2, 4), Buffer("y", 1, 3, 8, 8, 8))
    table = print_solution(task, Solution({"x": 4, "y": 8}))
    assert table == "id,lower,upper,size,offset\nx,0,2,4,4\ny,1,3,8,8\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not nothing"),
        ("id,lower,upper\n", "t.csv:1"),
        ("id,lower,upper,size,size\n", "t.csv:1"),
        ("id,lower,upper,size,colour\n", "colour"),
        ("id,lower,upper,size\na,0,1\n", "t.csv:2"),
        ("id,lower,upper,size\na,0,1,1.5\n", "size must be a whole number, not '1.5'"),
        ("id,lower,upper,size\na,0,1,2\nb,2,2,1\n", "t.csv:3"),
        ("id,lower,upper,size\na,0,1,2\na,2,3,1\n", "two buffers are named a"),
    ],
)
def test_a_wrong_table_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_problem(text, 16, "t.csv")
    assert words in str(raised.value)
