"""The integer program: scipy's HiGHS on the strong formulation.

`x[u,l]` says that node u takes choice l, `y[e,l,m]` that the ends of edge e take l and m; then
`sum_l x[u,l] = 1`, `sum_m y[e,l,m] = x[u,l]` and `sum_l y[e,l,m] = x[v,m]`. Only x need be whole.
The relaxation is that of the local polytope, much tighter than that of `y >= x + x - 1`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, isfinite

import numpy as np

from stages.compiler.layout.problem import Problem

_FEASIBILITY = 1e-6  # HiGHS's own tolerance on whole numbers, which x is rounded by


@dataclass(frozen=True, slots=True)
class Solved:
    """Choices, and a bound that HiGHS has proven."""

    chosen: tuple[int, ...]
    bound: float


@dataclass(slots=True)
class _Rows:
    """Equations, collected entry by entry."""

    rows: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    data: list[float] = field(default_factory=list)
    right: list[float] = field(default_factory=list)

    def add(self, entries: Iterator[tuple[int, float]], right: float) -> None:
        number = len(self.right)
        for column, value in entries:
            self.rows.append(number)
            self.columns.append(column)
            self.data.append(value)
        self.right.append(right)


def solve_program(problem: Problem) -> Solved | None:
    """The best choices, to the last cycle; None where no assignment has a finite cost.

    The same problem gives the same answer: HiGHS runs in one thread, without a time limit, until
    no gap is left. Of assignments that cost the same, the one with the earliest choices is
    preferred, by a term that can't outweigh a cycle.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    starts = np.cumsum([0, *map(len, problem.costs)]).tolist()
    costs = [cost for node in problem.costs for cost in node]
    tie = 0.5 / max(1, sum(len(node) - 1 for node in problem.costs))
    ordered = [place * tie for node in problem.costs for place in range(len(node))]
    binary = len(costs)
    rows = _Rows()
    for start, stop in pairwise(starts):
        rows.add(((column, 1.0) for column in range(start, stop)), 1.0)
    for edge in problem.edges:
        pairs = [
            (one, other, cost)
            for one, row in enumerate(edge.costs)
            for other, cost in enumerate(row)
            if isfinite(cost)
        ]
        first = len(costs)
        costs += [cost for _, _, cost in pairs]
        for node, side, width in (
            (edge.first, 0, len(edge.costs)),
            (edge.second, 1, len(edge.costs[0])),
        ):
            for choice in range(width):
                entries = [
                    (first + place, 1.0) for place, pair in enumerate(pairs) if pair[side] == choice
                ]
                rows.add(iter([*entries, (starts[node] + choice, -1.0)]), 0.0)
    allowed = np.array([1.0 if isfinite(cost) else 0.0 for cost in costs])
    objective = np.array([cost if isfinite(cost) else 0.0 for cost in costs])
    objective[:binary] += ordered
    whole = np.zeros(len(costs))
    whole[:binary] = 1
    matrix = csr_array((rows.data, (rows.rows, rows.columns)), shape=(len(rows.right), len(costs)))
    found = milp(
        objective,
        integrality=whole,
        bounds=Bounds(0, allowed),
        constraints=LinearConstraint(matrix, rows.right, rows.right),
        options={"mip_rel_gap": 0.0, "presolve": True},
    )
    if found.x is None:
        return None
    chosen = tuple(int(np.argmax(found.x[start:stop])) for start, stop in pairwise(starts))
    dual = found.mip_dual_bound if found.mip_dual_bound is not None else -inf
    # The ordering term is less than half a cycle, and all costs are whole.
    return Solved(chosen, float(np.floor(dual + _FEASIBILITY)))
