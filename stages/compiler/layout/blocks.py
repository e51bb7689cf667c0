"""Articulation points: a graph that hangs together at single nodes is solved block by block.

A block that hangs on one node is solved for each choice of it; what it costs then is a cost of that
choice. That is exact, and takes as many small programs as the node has choices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from stages.compiler.layout.milp import Solved
from stages.compiler.layout.problem import Edge, Problem

Solver = Callable[[Problem], Solved | None]


@dataclass(frozen=True, slots=True)
class Block:
    """Nodes that no single node cuts apart, in order, and the node by which they hang on what is
    left of the graph when they are taken away (-1 for the last of a component)."""

    nodes: tuple[int, ...]
    hangs_on: int


def blocks_of(problem: Problem) -> list[Block]:
    """The biconnected blocks of every component, each behind those that hang on it, so that they
    can be solved in this order. A node without edges is a block of its own.

    Hopcroft and Tarjan's algorithm (1973), without recursion.
    """
    return _Search(problem).run()


@dataclass(slots=True)
class _Search:
    problem: Problem
    neighbours: list[list[int]] = field(init=False)
    number: dict[int, int] = field(default_factory=dict)
    low: dict[int, int] = field(default_factory=dict)
    path: list[int] = field(default_factory=list)
    found: list[Block] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.neighbours = [[] for _ in self.problem.costs]
        for edge in self.problem.edges:
            self.neighbours[edge.first].append(edge.second)
            self.neighbours[edge.second].append(edge.first)

    def run(self) -> list[Block]:
        for root in range(len(self.neighbours)):
            if root not in self.number:
                before = len(self.found)
                self._component(root)
                if len(self.found) == before:
                    self.found.append(Block((root,), -1))
                else:
                    # The root's own block is found last; nothing is left for it to hang on.
                    last = self.found[-1]
                    self.found[-1] = Block(last.nodes, -1)
        return self.found

    def _component(self, root: int) -> None:
        self._enter(root)
        stack = [(root, -1, iter(self.neighbours[root]))]
        while stack:
            node, parent, rest = stack[-1]
            other = next(rest, None)
            if other is None:
                stack.pop()
                if parent >= 0:
                    self._leave(node, parent)
            elif other not in self.number:
                self._enter(other)
                stack.append((other, node, iter(self.neighbours[other])))
            elif other != parent:
                self.low[node] = min(self.low[node], self.number[other])

    def _enter(self, node: int) -> None:
        self.number[node] = self.low[node] = len(self.number)
        self.path.append(node)

    def _leave(self, node: int, parent: int) -> None:
        """Back at the parent: where nothing below reaches above it, it cuts a block off."""
        self.low[parent] = min(self.low[parent], self.low[node])
        if self.low[node] < self.number[parent]:
            return
        nodes = [parent]
        while True:
            nodes.append(self.path.pop())
            if nodes[-1] == node:
                break
        self.found.append(Block(tuple(sorted(nodes)), parent))


@dataclass(slots=True)
class BlockSolution:
    """Solves a problem block by block. `solver` solves one block."""

    problem: Problem
    blocks: Sequence[Block]
    solver: Solver
    costs: list[list[float]] = field(init=False)
    answers: list[list[Solved | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.costs = [list(costs) for costs in self.problem.costs]

    def solve(self) -> Solved | None:
        """The best choices of all blocks; None where there is no finite answer."""
        edges = self._edges()
        bound = 0.0
        for number, block in enumerate(self.blocks):
            if block.hangs_on < 0:
                answer = self.solver(self._part(block, edges[number], None))
                self.answers.append([answer])
                if answer is None:
                    return None
                bound += answer.bound
                continue
            self._fold(block, edges[number])
        return Solved(self._back(), bound)

    def _fold(self, block: Block, edges: Sequence[Edge]) -> None:
        """Solve a block for each choice of the node that it hangs on."""
        answers: list[Solved | None] = []
        for choice in range(len(self.costs[block.hangs_on])):
            answers.append(self.solver(self._part(block, edges, choice)))
        for choice, answer in enumerate(answers):
            self.costs[block.hangs_on][choice] += inf if answer is None else answer.bound
        self.answers.append(answers)

    def _part(self, block: Block, edges: Sequence[Edge], choice: int | None) -> Problem:
        """A block as a problem; of the node that it hangs on only one choice, at no cost."""
        numbers = {node: number for number, node in enumerate(block.nodes)}
        costs = []
        for node in block.nodes:
            if node == block.hangs_on and choice is not None:
                width = len(self.costs[node])
                costs.append(tuple(0.0 if place == choice else inf for place in range(width)))
            else:
                costs.append(tuple(self.costs[node]))
        inner = tuple(Edge(numbers[edge.first], numbers[edge.second], edge.costs) for edge in edges)
        return Problem(tuple(costs), inner)

    def _edges(self) -> list[list[Edge]]:
        """The edges of each block: both ends of an edge lie in exactly one."""
        homes: dict[int, set[int]] = {}
        for number, block in enumerate(self.blocks):
            for node in block.nodes:
                homes.setdefault(node, set()).add(number)
        found: list[list[Edge]] = [[] for _ in self.blocks]
        for edge in self.problem.edges:
            (home,) = homes[edge.first] & homes[edge.second]
            found[home].append(edge)
        return found

    def _back(self) -> tuple[int, ...]:
        """From the last block backwards: each knows the choice that it hangs on by then."""
        chosen = [0] * len(self.costs)
        for block, answers in zip(reversed(self.blocks), reversed(self.answers), strict=True):
            answer = answers[chosen[block.hangs_on] if block.hangs_on >= 0 else 0]
            assert answer is not None
            for node, choice in zip(block.nodes, answer.chosen, strict=True):
                chosen[node] = choice
        return tuple(chosen)
