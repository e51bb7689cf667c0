"""Layout problems made up for tests, and the answer that trying everything gives."""

from __future__ import annotations

from itertools import product
from math import inf, prod
from random import Random

from hypothesis import strategies as st

from stages.compiler.layout.problem import Edge, Problem

MOST_ASSIGNMENTS = 3000


def best_of_all(problem: Problem) -> float:
    """The least cost, by trying every assignment."""
    choices = [range(len(costs)) for costs in problem.costs]
    return min(problem.cost(chosen) for chosen in product(*choices))


@st.composite
def problems(draw: st.DrawFn, forbidden: bool = True) -> Problem:
    """Small graphs, every second one too dense for elimination alone: costs are few numbers, so
    that ties are common, and pairs of choices may be `forbidden`."""
    is_dense = draw(st.booleans())
    narrowest = 2 if is_dense else 1
    widths = draw(st.lists(st.integers(narrowest, 3), min_size=4 if is_dense else 1, max_size=7))
    while prod(widths) > MOST_ASSIGNMENTS:
        widths.pop()
    number = st.integers(0, 9).map(float)
    cost = st.sampled_from([*map(float, range(6)), inf, inf, inf]) if forbidden else number
    nodes = tuple(tuple(draw(number) for _ in range(width)) for width in widths)
    pairs = [(a, b) for b in range(len(widths)) for a in range(b)]
    most = 4 if is_dense else 1
    kept = [pair for pair in pairs if draw(st.integers(0, 4)) < most]
    edges = tuple(
        Edge(a, b, tuple(tuple(draw(cost) for _ in range(widths[b])) for _ in range(widths[a])))
        for a, b in kept
    )
    return Problem(nodes, edges)


def chain_of_knots(knots: int, size: int, seed: int) -> Problem:
    """Knots in which each node is joined to each, hung one on the next by a node that both have."""
    random = Random(seed)
    count = knots * (size - 1) + 1
    costs = tuple(tuple(float(random.randint(0, 900)) for _ in range(3)) for _ in range(count))
    edges = []
    for knot in range(knots):
        nodes = range(knot * (size - 1), (knot + 1) * (size - 1) + 1)
        edges += [(a, b) for b in nodes for a in nodes if a < b]
    return Problem(costs, tuple(Edge(a, b, _transposes(random)) for a, b in edges))


def network_like(count: int, seed: int) -> Problem:
    """Nodes in a row, each joined to the one before it, to one near it, and some to one far away:
    what the values of a network look like. Three layouts each."""
    random = Random(seed)
    costs = tuple(tuple(float(random.randint(0, 5000)) for _ in range(3)) for _ in range(count))
    pairs: dict[tuple[int, int], None] = {}
    for node in range(1, count):
        pairs[node - 1, node] = None
        pairs[random.randrange(max(0, node - 6), node), node] = None
        if random.random() < 0.1:
            pairs[random.randrange(node), node] = None
    return Problem(costs, tuple(Edge(a, b, _transposes(random)) for a, b in pairs))


def _transposes(random: Random) -> tuple[tuple[float, ...], ...]:
    return tuple(
        tuple(0.0 if a == b else float(random.randint(500, 6000)) for b in range(3))
        for a in range(3)
    )
