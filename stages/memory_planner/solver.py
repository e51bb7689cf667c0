"""Offsets within a capacity, or the lowest peak: first fit where it is enough, else the search.

Parts of a problem that no lifetime joins are solved on their own. The search runs strategy after
strategy with few steps each, then again with more: what one strategy finds at once another may
not find in hours (Gomes, Selman, Kautz, "Boosting combinatorial search through randomization",
AAAI 1998, on such heavy tails), and the steps wasted stay in proportion.
"""

from __future__ import annotations

from dataclasses import replace

from stages.memory_planner.greedy import ORDERS, first_fit
from stages.memory_planner.infeasibility import find_proof, names_in_words
from stages.memory_planner.problem import Buffer, Problem, max_live_bytes
from stages.memory_planner.search import Ending, Search
from stages.memory_planner.solution import Answer, GaveUp, Infeasible, Solution
from stages.memory_planner.strategy import PORTFOLIO
from stages.memory_planner.sweep import sweep

DEFAULT_STEPS = 1_000_000
_FIRST_STEPS = 5  # steps a buffer that each strategy gets in the first round
_GROWTH = 2  # and how many times more it gets in each further round
_NARROWING = 4  # capacities that `lowest_peak` may try below first fit's peak


def solve(problem: Problem, steps: int = DEFAULT_STEPS) -> Answer:
    """Offsets within the capacity, a proof that there are none, or word of having given up.

    `steps` bounds the search (placements and delays, all strategies and parts together); the
    answer depends on nothing else but the problem.
    """
    proof = find_proof(problem)
    if proof is not None:
        return proof
    offsets: dict[str, int] = {}
    spent = 0
    for part in independent_parts(problem.buffers):
        answer = _solve_part(replace(problem, buffers=part), steps - spent)
        spent += answer.steps
        if not isinstance(answer, Solution):
            return replace(answer, steps=spent)
        offsets.update(answer.offsets)
    return Solution({item.name: offsets[item.name] for item in problem.buffers}, spent)


def lowest_peak(buffers: tuple[Buffer, ...], steps: int, enough: float = 1.0) -> Solution:
    """Offsets with a low peak: at most `enough` times the max-live bound where `steps` allow it.

    Tries first fit in a few orders, then searches at the bound itself, then halfway between the
    bound and the best peak so far. Fixed offsets may force any peak; they must not clash.
    """
    bound = max_live_bytes(buffers)
    best = _lowest_first_fit(buffers, int(bound * enough))
    whole = Problem(buffers, best.peak_bytes(Problem(buffers, 0)))
    capacity = bound
    left = steps
    for _ in range(_NARROWING):
        peak = best.peak_bytes(whole)
        if peak <= int(bound * enough) or capacity >= peak or left <= 0:
            break
        answer = solve(replace(whole, capacity_bytes=capacity), left // 2)
        left -= answer.steps
        if isinstance(answer, Solution):
            best = answer
            break
        if isinstance(answer, Infeasible):
            bound = max(bound, capacity + 1)
        capacity = (capacity + peak) // 2
    return replace(best, steps=steps - left)


def independent_parts(buffers: tuple[Buffer, ...]) -> tuple[tuple[Buffer, ...], ...]:
    """Buffers grouped so that no lifetime of one group meets one of another, in time's order."""
    parts: list[list[Buffer]] = []
    end = None
    for buffer in sorted(buffers, key=lambda item: item.lower):
        if end is None or buffer.lower >= end:
            parts.append([])
            end = buffer.upper
        parts[-1].append(buffer)
        end = max(end, buffer.upper)
    return tuple(tuple(part) for part in parts)


def _lowest_first_fit(buffers: tuple[Buffer, ...], enough_bytes: int) -> Solution:
    """The best of first fit's orders; the later ones only where the earlier aren't enough."""
    whole = Problem(buffers, enough_bytes)
    best = first_fit(buffers, ORDERS[0])
    for order in ORDERS[1:]:
        if best.peak_bytes(whole) <= enough_bytes:
            break
        found = first_fit(buffers, order)
        if found.peak_bytes(whole) < best.peak_bytes(whole):
            best = found
    return best


def _solve_part(problem: Problem, steps: int) -> Answer:
    greedy = _first_fits(problem)
    if greedy is not None:
        return greedy
    sections = sweep(problem.buffers)
    limit = _FIRST_STEPS * len(problem.buffers)
    spent = 0
    while True:
        for strategy in PORTFOLIO:
            search = Search(problem, sections, strategy, min(limit, steps - spent))
            ending = search.run()
            spent += search.steps
            if ending is Ending.FOUND:
                names = (item.name for item in problem.buffers)
                return Solution(dict(zip(names, search.offsets(), strict=True)), spent)
            if ending is Ending.EXHAUSTED:
                return _exhausted(problem, spent)
            if spent >= steps:
                return GaveUp(spent)
        limit *= _GROWTH


def _first_fits(problem: Problem) -> Solution | None:
    for order in ORDERS:
        found = first_fit(problem.buffers, order)
        if found.peak_bytes(problem) <= problem.capacity_bytes:
            return found
    return None


def _exhausted(problem: Problem, spent: int) -> Infeasible:
    buffers = problem.buffers
    start = min(item.lower for item in buffers)
    stop = max(item.upper for item in buffers)
    names = tuple(item.name for item in buffers)
    live = max_live_bytes(buffers)
    return Infeasible(
        f"over [{start}, {stop}), no placement of {len(names)} buffers fits the capacity of "
        f"{problem.capacity_bytes} B, though no more than {live} B are live at once: "
        f"{names_in_words(names)} (all placements were searched, {spent} steps)",
        None,
        names,
        spent,
    )
