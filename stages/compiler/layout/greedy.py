"""The greedy answer: nodes in their order, each as suits those before it, then single changes as
long as one gains."""

from __future__ import annotations

from dataclasses import dataclass, field

from stages.compiler.layout.problem import Matrix, Problem, transposed

_MAX_SWEEPS = 50


def greedy(problem: Problem) -> tuple[int, ...]:
    """Choices that no single change improves. The same problem gives the same answer."""
    return _Descent(problem).run()


@dataclass(slots=True)
class _Descent:
    problem: Problem
    links: list[list[tuple[int, Matrix]]] = field(init=False)
    chosen: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.links = [[] for _ in self.problem.costs]
        for edge in self.problem.edges:
            self.links[edge.second].append((edge.first, edge.costs))
            self.links[edge.first].append((edge.second, transposed(edge.costs)))

    def run(self) -> tuple[int, ...]:
        for node in range(len(self.problem.costs)):
            self.chosen.append(self._best(node, len(self.chosen)))
        count = len(self.chosen)
        for _ in range(_MAX_SWEEPS):
            before = list(self.chosen)
            for node in range(count):
                self.chosen[node] = self._best(node, count)
            if self.chosen == before:
                break
        return tuple(self.chosen)

    def _best(self, node: int, known: int) -> int:
        """The choice that costs least beside the neighbours numbered below `known`; those that
        aren't known yet are taken at their least."""
        totals = list(self.problem.costs[node])
        for other, costs in self.links[node]:
            for choice in range(len(totals)):
                if other < known:
                    totals[choice] += costs[self.chosen[other]][choice]
                else:
                    totals[choice] += min(row[choice] for row in costs)
        current = self.chosen[node] if node < len(self.chosen) else 0
        order = [current, *(choice for choice in range(len(totals)) if choice != current)]
        return min(order, key=totals.__getitem__)
