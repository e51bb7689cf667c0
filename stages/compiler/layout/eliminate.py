"""Elimination: nodes with at most two neighbours are solved for each choice of those, exactly.

The reductions R0, RI and RII of partitioned boolean quadratic problems (Scholz and Eckstein,
"Register allocation for irregular architectures", 2002). Chains, trees and whatever is made of
residual connections end here; only what is knotted more tightly is left over.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from stages.compiler.layout.problem import Edge, Matrix, Problem, added, transposed

_Best = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Removed:
    """A node that was eliminated: its best choice for each choice of its neighbours, which are
    none, one or two; `best` is laid out row by row."""

    node: int
    neighbours: tuple[int, ...]
    widths: tuple[int, ...]
    best: _Best

    def choice(self, chosen: Sequence[int]) -> int:
        """The best choice once its neighbours have theirs."""
        place = 0
        for neighbour, width in zip(self.neighbours, self.widths, strict=True):
            place = place * width + chosen[neighbour]
        return self.best[place]


@dataclass(frozen=True, slots=True)
class Core:
    """What elimination left. `nodes` are the numbers that the nodes of `problem` had before;
    `settled` is what the eliminated ones cost for certain."""

    problem: Problem
    nodes: tuple[int, ...]
    removed: tuple[Removed, ...]
    settled: float

    def whole(self, chosen: Sequence[int]) -> tuple[int, ...]:
        """The best choices of all nodes, once those of the core are known."""
        found = [0] * (len(self.nodes) + len(self.removed))
        for node, choice in zip(self.nodes, chosen, strict=True):
            found[node] = choice
        for item in reversed(self.removed):
            found[item.node] = item.choice(found)
        return tuple(found)


def eliminate(problem: Problem) -> Core:
    """Eliminate nodes of one choice, and nodes with two neighbours or fewer, while there are any.

    The cheapest first, of those the first; of equal choices the first one wins.
    """
    work = _Elimination([list(costs) for costs in problem.costs])
    for edge in problem.edges:
        work.join(edge.first, edge.second, edge.costs)
    work.run()
    return work.core()


@dataclass(slots=True)
class _Elimination:
    costs: list[list[float]]
    links: list[dict[int, Matrix]] = field(init=False)
    removed: list[Removed] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    settled: float = 0
    ready: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.links = [{} for _ in self.costs]

    def join(self, first: int, second: int, costs: Matrix) -> None:
        """Add an edge; to one that is there already."""
        known = self.links[first].get(second)
        costs = costs if known is None else added(known, costs)
        self.links[first][second] = costs
        self.links[second][first] = transposed(costs)

    def run(self) -> None:
        self.ready = [(self._degree(node), node) for node in range(len(self.costs))]
        heapq.heapify(self.ready)
        while self.ready:
            degree, node = heapq.heappop(self.ready)
            if node in self.gone or degree != self._degree(node) or degree > 2:
                continue
            self._remove(node)

    def core(self) -> Core:
        nodes = tuple(node for node in range(len(self.costs)) if node not in self.gone)
        numbers = {node: number for number, node in enumerate(nodes)}
        edges = tuple(
            Edge(numbers[node], numbers[other], costs)
            for node in nodes
            for other, costs in sorted(self.links[node].items())
            if node < other
        )
        problem = Problem(tuple(tuple(self.costs[node]) for node in nodes), edges)
        return Core(problem, nodes, tuple(self.removed), self.settled)

    def _degree(self, node: int) -> int:
        """Neighbours that must be known; none need be where there is but one choice."""
        return 0 if len(self.costs[node]) == 1 else len(self.links[node])

    def _remove(self, node: int) -> None:
        neighbours = sorted(self.links[node])
        self.gone.add(node)
        if len(self.costs[node]) == 1:
            self._fold_single(node, neighbours)
        elif not neighbours:
            self.settled += min(self.costs[node])
            self._note(node, (), [_first_least(self.costs[node])])
        elif len(neighbours) == 1:
            self._fold_into(node, neighbours[0])
        else:
            self._fold_between(node, neighbours[0], neighbours[1])
        for other in neighbours:
            self.links[other].pop(node, None)
            heapq.heappush(self.ready, (self._degree(other), other))

    def _fold_single(self, node: int, neighbours: Sequence[int]) -> None:
        """A node of one choice: its edges are costs of its neighbours alone."""
        self.settled += self.costs[node][0]
        for other in neighbours:
            row = self.links[node][other][0]
            self.costs[other] = [a + b for a, b in zip(self.costs[other], row, strict=True)]
        self._note(node, (), [0])

    def _fold_into(self, node: int, other: int) -> None:
        best = []
        for place, column in enumerate(self.links[other][node]):
            totals = [a + b for a, b in zip(self.costs[node], column, strict=True)]
            best.append(_first_least(totals))
            self.costs[other][place] += totals[best[-1]]
        self._note(node, (other,), best)

    def _fold_between(self, node: int, one: int, other: int) -> None:
        best, rows = [], []
        for first in self.links[one][node]:
            row = []
            for second in self.links[other][node]:
                totals = [
                    a + b + c for a, b, c in zip(self.costs[node], first, second, strict=True)
                ]
                best.append(_first_least(totals))
                row.append(totals[best[-1]])
            rows.append(tuple(row))
        self._note(node, (one, other), best)
        self.join(one, other, tuple(rows))

    def _note(self, node: int, neighbours: tuple[int, ...], best: Sequence[int]) -> None:
        widths = tuple(len(self.costs[other]) for other in neighbours)
        self.removed.append(Removed(node, neighbours, widths, tuple(best)))


def _first_least(costs: Sequence[float]) -> int:
    return min(range(len(costs)), key=costs.__getitem__)
