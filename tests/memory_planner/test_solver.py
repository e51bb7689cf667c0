"""The solver against brute force, and what it proves or gives up on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from stages.memory_planner.greedy import ORDERS, first_fit
from stages.memory_planner.infeasibility import find_proof
from stages.memory_planner.problem import Buffer, Problem, max_live_bytes
from stages.memory_planner.search import Ending, Search
from stages.memory_planner.solution import GaveUp, Infeasible, Solution
from stages.memory_planner.solver import independent_parts, lowest_peak, solve
from stages.memory_planner.strategy import PORTFOLIO, Feature, Focus, Strategy
from stages.memory_planner.sweep import sweep
from stages.memory_planner.validator import faults
from tests.memory_planner.cases import (
    FRAGMENTED,
    INSTANCES,
    instance,
    placeable,
    problem,
    tiny_problems,
)


@settings(max_examples=300)
@given(tiny_problems())
def test_the_solver_finds_a_placement_exactly_where_one_exists(task: Problem) -> None:
    answer = solve(task)
    if placeable(task):
        assert isinstance(answer, Solution)
        assert faults(task, answer) == ()
    else:
        assert isinstance(answer, Infeasible)


@settings(max_examples=150)
@given(tiny_problems())
def test_the_search_alone_does_so_with_every_focus(task: Problem) -> None:
    if find_proof(task) is not None:
        return
    exists = placeable(task)
    for focus in Focus:
        search = Search(task, sweep(task.buffers), Strategy(focus, (Feature.AREA,)), 100_000)
        assert (search.run() is Ending.FOUND) == exists
        if exists:
            names = [item.name for item in task.buffers]
            found = Solution(dict(zip(names, search.offsets(), strict=True)))
            assert faults(task, found) == ()


def test_a_placement_that_the_live_bytes_allow_may_not_exist() -> None:
    task = problem(FRAGMENTED, 5)
    assert max_live_bytes(task.buffers) == 5
    assert not placeable(task)
    answer = solve(task)
    assert isinstance(answer, Infeasible)
    assert answer.instant is None
    assert set(answer.buffers) == {item.name for item in task.buffers}
    assert "over [3, 8), no placement of 7 buffers fits the capacity of 5 B" in answer.reason
    assert isinstance(solve(problem(FRAGMENTED, 6)), Solution)


def test_too_many_live_bytes_are_proved_by_an_instant_and_its_buffers() -> None:
    answer = solve(problem([(0, 4, 3), (2, 6, 4), (3, 5, 2), (5, 9, 9)], 8))
    assert answer == Infeasible(
        "at instant 5, 2 buffers of 13 B are live, 5 B more than the capacity of 8 B: b3, b1",
        5,
        ("b3", "b1"),
    )


def test_fixed_buffers_that_clash_are_proved() -> None:
    one = Buffer("one", 0, 4, 4, fixed_offset_bytes=0)
    other = Buffer("other", 3, 6, 4, fixed_offset_bytes=2)
    answer = solve(Problem((one, other), 100))
    assert isinstance(answer, Infeasible)
    assert (answer.instant, answer.buffers) == (3, ("one", "other"))
    outside = solve(Problem((Buffer("far", 0, 1, 4, fixed_offset_bytes=98),), 100))
    assert isinstance(outside, Infeasible)
    assert "far is fixed at 98 and ends at 102" in outside.reason


def test_a_bounded_search_says_that_it_gave_up() -> None:
    assert solve(problem(FRAGMENTED, 5), steps=3) == GaveUp(3)


def test_nothing_needs_no_memory() -> None:
    assert solve(Problem((), 0)) == Solution({})
    assert lowest_peak((), 10) == Solution({})


def test_the_order_of_buffers_on_time_s_line_makes_parts() -> None:
    parts = independent_parts(problem([(4, 6, 1), (0, 2, 1), (1, 4, 1), (6, 7, 1)], 9).buffers)
    assert [[item.name for item in part] for part in parts] == [["b1", "b2"], ["b0"], ["b3"]]


@settings(max_examples=60)
@given(tiny_problems())
def test_a_low_peak_is_no_higher_than_first_fit_s(task: Problem) -> None:
    free = tuple(
        Buffer(item.name, item.lower, item.upper, item.size_bytes, item.alignment_bytes)
        for item in task.buffers
    )
    found = lowest_peak(free, 1_000)
    whole = Problem(free, found.peak_bytes(task))
    assert faults(whole, found) == ()
    assert whole.capacity_bytes <= min(first_fit(free, order).peak_bytes(task) for order in ORDERS)


def test_a_low_peak_is_searched_where_first_fit_falls_short() -> None:
    task = problem(((6, 7, 4), (1, 2, 1), (2, 6, 3), (5, 6, 2), (3, 7, 3)), 8)
    assert max_live_bytes(task.buffers) == 8
    assert min(first_fit(task.buffers, order).peak_bytes(task) for order in ORDERS) == 9
    found = lowest_peak(task.buffers, 10_000)
    assert found.peak_bytes(task) == 8
    assert faults(task, found) == ()


def test_the_same_problem_gives_the_same_answer() -> None:
    rows = [(place % 7, place % 7 + 1 + place % 3, 1 + place % 5) for place in range(40)]
    task = problem(rows, max_live_bytes(problem(rows, 0).buffers))
    assert solve(task) == solve(task)


@pytest.mark.parametrize("strategy", PORTFOLIO)
def test_a_search_stops_at_its_steps(strategy: Strategy) -> None:
    task = problem(FRAGMENTED, 5)
    search = Search(task, sweep(task.buffers), strategy, 2)
    assert search.run() is Ending.OUT_OF_STEPS
    assert search.steps == 2


LENGTHY = {"D", "E", "F", "I", "J"}  # half a second each, or more


def _instance(name: str) -> object:
    marks = [pytest.mark.slow] if name in LENGTHY else []
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [_instance(name) for name in INSTANCES])
def test_minimalloc_s_instances_fit_their_capacity(name: str) -> None:
    task = instance(name)
    answer = solve(task, steps=50_000)
    assert isinstance(answer, Solution)
    assert faults(task, answer) == ()
    assert first_fit(task.buffers, ORDERS[0]).peak_bytes(task) > 1.2 * task.capacity_bytes
