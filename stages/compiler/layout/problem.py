"""The problem: nodes with a few choices each, and what each pair of choices along an edge costs.

Whoever solves it needs to know nothing of layouts. Costs are cycles; infinite ones mark pairs that
can't stand beside each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

Matrix = tuple[tuple[float, ...], ...]
"""Rows are choices of an edge's first node, columns those of its second."""


@dataclass(frozen=True, slots=True)
class Edge:
    """What two nodes cost together, by the choices of both."""

    first: int
    second: int
    costs: Matrix


@dataclass(frozen=True, slots=True)
class Problem:
    """`costs[node][choice]` of each node alone, and the edges, at most one for a pair of nodes.

    Costs are whole and not negative, or infinite; each node has at least one choice.
    """

    costs: tuple[tuple[float, ...], ...]
    edges: tuple[Edge, ...]

    def cost(self, chosen: Sequence[int]) -> float:
        """What an assignment of one choice to each node costs."""
        alone = sum(costs[choice] for costs, choice in zip(self.costs, chosen, strict=True))
        return alone + sum(
            edge.costs[chosen[edge.first]][chosen[edge.second]] for edge in self.edges
        )

    def least(self) -> float:
        """What no assignment undercuts: the least of each node and of each edge on its own."""
        edges = sum(min(map(min, edge.costs)) for edge in self.edges)
        return sum(map(min, self.costs)) + edges


class Method(StrEnum):
    """How an answer was found."""

    EXACT = "exact"  # eliminated down to nothing, or what was left by the integer program
    CUT = "cut"  # exact too: block by block between the articulation points of the graph
    GREEDY = "greedy"  # a block is too large: no more than what local changes reach


@dataclass(frozen=True, slots=True)
class Answer:
    """A choice for each node, what all of it costs, and what nothing can undercut.

    `program_nodes`: nodes that elimination left to the integer program; `blocks`: parts into which
    articulation points cut them (1 where they weren't cut).
    """

    chosen: tuple[int, ...]
    cost: float
    bound: float
    method: Method
    program_nodes: int = 0
    blocks: int = 1

    @property
    def gap(self) -> float:
        """How far the answer may be from the best, as a share of it."""
        if self.cost <= self.bound:
            return 0.0
        return (self.cost - self.bound) / self.cost if self.cost < inf else inf


def transposed(costs: Matrix) -> Matrix:
    """The same costs with the nodes of the edge the other way round."""
    return tuple(zip(*costs, strict=True))


def added(first: Matrix, second: Matrix) -> Matrix:
    """Two edges between the same nodes as one."""
    return tuple(
        tuple(a + b for a, b in zip(one, other, strict=True))
        for one, other in zip(first, second, strict=True)
    )
