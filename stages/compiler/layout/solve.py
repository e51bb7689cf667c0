"""The answer to a layout problem: eliminated where that is exact, an integer program where not."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite

from stages.compiler.layout.blocks import BlockSolution, blocks_of
from stages.compiler.layout.eliminate import Core, eliminate
from stages.compiler.layout.greedy import greedy
from stages.compiler.layout.milp import Solved, solve_program
from stages.compiler.layout.problem import Answer, Method, Problem

MOST_NODES = 2000
"""Nodes of one integer program; beyond, it is cut at articulation points, or not solved."""


@dataclass(frozen=True, slots=True)
class Solving:
    """How a problem is solved; the defaults are those of a compile."""

    most_nodes: int = MOST_NODES

    def answer(self, problem: Problem) -> Answer:
        """The best choices, with their cost and a proven bound.

        Raises:
            ValueError: no assignment has a finite cost.
        """
        core = eliminate(problem)
        if not core.nodes:
            return self._exact(problem, core, Solved((), 0.0), Method.EXACT, 1)
        if len(core.nodes) <= self.most_nodes:
            return self._exact(problem, core, solve_program(core.problem), Method.EXACT, 1)
        blocks = blocks_of(core.problem)
        if max(len(block.nodes) for block in blocks) <= self.most_nodes:
            solved = BlockSolution(core.problem, blocks, solve_program).solve()
            return self._exact(problem, core, solved, Method.CUT, len(blocks))
        chosen = core.whole(greedy(core.problem))
        cost, bound = problem.cost(chosen), core.settled + core.problem.least()
        if not isfinite(cost):
            raise ValueError("the greedy choices can't stand beside each other")
        return Answer(chosen, cost, bound, Method.GREEDY, len(core.nodes), len(blocks))

    def _exact(
        self, problem: Problem, core: Core, solved: Solved | None, method: Method, blocks: int
    ) -> Answer:
        if solved is None:
            raise ValueError("no choices can stand beside each other")
        chosen = core.whole(solved.chosen)
        cost = problem.cost(chosen)
        if cost == inf:
            raise ValueError("no choices can stand beside each other")
        bound = min(cost, core.settled + solved.bound)
        return Answer(chosen, cost, bound, method, len(core.nodes), blocks)
