"""Every way to solve a layout problem finds what trying everything finds."""

from __future__ import annotations

import subprocess
import sys
from math import inf

import pytest
from hypothesis import given, settings

from stages.compiler.layout.blocks import BlockSolution, blocks_of
from stages.compiler.layout.eliminate import eliminate
from stages.compiler.layout.greedy import greedy
from stages.compiler.layout.milp import solve_program
from stages.compiler.layout.problem import Edge, Method, Problem
from stages.compiler.layout.solve import Solving
from tests.compiler.layout.problems import best_of_all, chain_of_knots, network_like, problems


@settings(max_examples=30, deadline=None)
@given(problems())
def test_the_answer_is_the_best_of_all(problem: Problem) -> None:
    best = best_of_all(problem)
    if best == inf:
        with pytest.raises(ValueError, match="beside each other"):
            Solving().answer(problem)
        return
    answer = Solving().answer(problem)
    assert answer.cost == problem.cost(answer.chosen) == best
    assert answer.bound == best
    assert answer.gap == 0
    assert answer.method is Method.EXACT


@settings(max_examples=25, deadline=None)
@given(problems())
def test_the_integer_program_alone_is_the_best_of_all(problem: Problem) -> None:
    best = best_of_all(problem)
    solved = solve_program(problem)
    if best == inf:
        assert solved is None
        return
    assert solved is not None
    assert problem.cost(solved.chosen) == solved.bound == best


@settings(max_examples=25, deadline=None)
@given(problems())
def test_block_by_block_is_the_best_of_all(problem: Problem) -> None:
    best = best_of_all(problem)
    solved = BlockSolution(problem, blocks_of(problem), solve_program).solve()
    if solved is None or best == inf:
        assert best == inf
        return
    assert problem.cost(solved.chosen) == solved.bound == best


@settings(max_examples=30, deadline=None)
@given(problems())
def test_elimination_leaves_a_problem_of_the_same_answer(problem: Problem) -> None:
    core = eliminate(problem)
    degrees = [0] * len(core.nodes)
    for edge in core.problem.edges:
        degrees[edge.first] += 1
        degrees[edge.second] += 1
    assert all(degree > 2 for degree in degrees)
    rest = best_of_all(core.problem) if core.nodes else 0.0
    assert core.settled + rest == best_of_all(problem)


@settings(max_examples=30, deadline=None)
@given(problems(forbidden=False))
def test_the_greedy_answer_is_one_that_no_single_change_improves(problem: Problem) -> None:
    chosen = greedy(problem)
    cost = problem.cost(chosen)
    assert problem.least() <= best_of_all(problem) <= cost
    for node, costs in enumerate(problem.costs):
        for choice in range(len(costs)):
            other = (*chosen[:node], choice, *chosen[node + 1 :])
            assert problem.cost(other) >= cost


@settings(max_examples=30, deadline=None)
@given(problems())
def test_blocks_hold_each_edge_once_and_hang_on_what_comes_later(problem: Problem) -> None:
    blocks = blocks_of(problem)
    for edge in problem.edges:
        assert sum({edge.first, edge.second} <= set(block.nodes) for block in blocks) == 1
    assert {node for block in blocks for node in block.nodes} == set(range(len(problem.costs)))
    for place, block in enumerate(blocks):
        later = {node for other in blocks[place + 1 :] for node in other.nodes}
        shared = later & set(block.nodes)
        assert shared <= {block.hangs_on}
        assert (block.hangs_on >= 0) == bool(shared)


def test_ends_that_no_single_node_cuts_apart_are_one_block() -> None:
    free = ((0.0, 0.0), (0.0, 0.0))
    ring = Problem(
        ((0.0, 0.0),) * 5, tuple(Edge(a, b, free) for a, b in [(0, 1), (1, 2), (0, 2), (2, 3)])
    )
    found = {(block.nodes, block.hangs_on) for block in blocks_of(ring)}
    assert found == {((2, 3), 2), ((0, 1, 2), -1), ((4,), -1)}


def test_a_knot_that_is_too_large_is_cut_where_it_hangs_together_at_one_node() -> None:
    problem = chain_of_knots(4, 5, seed=1)
    whole, cut = Solving().answer(problem), Solving(most_nodes=6).answer(problem)
    assert (whole.method, cut.method) == (Method.EXACT, Method.CUT)
    assert (whole.program_nodes, cut.blocks) == (17, 4)
    assert cut.cost == cut.bound == whole.cost


def test_a_knot_that_nothing_cuts_gets_the_greedy_answer_and_an_honest_gap() -> None:
    problem = chain_of_knots(4, 5, seed=2)
    best, answer = Solving().answer(problem), Solving(most_nodes=4).answer(problem)
    assert answer.method is Method.GREEDY
    assert answer.bound <= best.cost <= answer.cost
    assert answer.gap == (answer.cost - answer.bound) / answer.cost > 0


def test_of_equal_answers_the_earliest_choices_are_taken() -> None:
    free = ((0.0, 0.0),) * 2
    edges = tuple(Edge(a, b, free) for a in range(5) for b in range(a + 1, 5))
    problem = Problem(((3.0, 3.0),) * 5, edges)
    solved = solve_program(problem)
    assert solved is not None
    assert solved.chosen == (0,) * 5
    assert solved.bound == 15


def test_three_hundred_nodes_of_three_layouts() -> None:
    """What issue and design state for the strong formulation; costs are timed by `make bench`."""
    problem = network_like(300, seed=0)
    answer = Solving().answer(problem)
    assert answer.method is Method.EXACT
    assert answer.program_nodes > 200
    assert answer.cost == answer.bound < problem.cost(greedy(problem))
    assert Solving().answer(problem) == answer


def test_scipy_s_optimizer_is_imported_only_where_it_is_needed() -> None:
    code = (
        "import sys, stages.compiler.pipeline\n"
        "from stages.compiler.layout.solve import Solving\n"
        "from stages.compiler.layout.problem import Problem\n"
        "Solving().answer(Problem(((1.0, 2.0),), ()))\n"
        "assert 'scipy.optimize' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
