"""Which operators to leave in float so that an accuracy limit is met: few, by a stated search.

1. All in int8. If that meets the limit, nothing is left in float.
2. All in float. If that misses it, no choice of operators can be expected to meet it.
3. Rank: each operator alone in int8, the others in float; the worst comes first. Noise adds up, so
   what hurts alone is what to take out.
4. Halve: the shortest beginning of that ranking that meets the limit, by bisection.
5. Drop: each of those, least harmful first, goes back to int8 where the limit still holds.

The answer meets the limit, and no single operator of it can go back. It needs not be the least
possible number: that would take a trial of every subset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stages.quantizer.closeness import Closeness

Kept = frozenset[str]
MAX_DROPS = 24
"""Trials that step 5 may take; what lies behind them in the ranking stays in float."""


@dataclass(frozen=True, slots=True)
class Found:
    """`kept` are the operators to leave in float; None where even all of them miss the limit.

    `alone` is the closeness of each operator in int8 alone, worst first.
    """

    kept: tuple[str, ...] | None
    reached: Closeness
    in_int8: Closeness
    in_float: Closeness | None
    alone: tuple[tuple[str, Closeness], ...]
    trials: int


@dataclass(slots=True)
class _Count:
    """Trials so far."""

    trials: int = 0


def fewest_in_float(
    candidates: Sequence[str],
    judge: Callable[[Kept], Closeness],
    rank: Callable[[Kept], Closeness],
    meets: Callable[[Closeness], bool],
) -> Found:
    """Search among `candidates`.

    `judge` tells how close the recipe comes with those operators in float, on every sample; `rank`
    may look at fewer, it decides nothing but the order.
    """
    count = _Count()

    def judged(kept: Sequence[str]) -> Closeness:
        count.trials += 1
        return judge(frozenset(kept))

    in_int8 = judged(())
    if meets(in_int8):
        return Found((), in_int8, in_int8, None, (), count.trials)
    in_float = judged(candidates)
    if not meets(in_float):
        return Found(None, in_float, in_int8, in_float, (), count.trials)
    alone = _ranked(candidates, rank)
    count.trials += len(candidates) + 1
    order = [name for name, _ in alone]
    kept, reached = _shortest(order, in_float, judged, meets)
    kept, reached = _without_needless(kept, reached, judged, meets)
    return Found(tuple(kept), reached, in_int8, in_float, tuple(alone), count.trials)


def _ranked(
    candidates: Sequence[str], rank: Callable[[Kept], Closeness]
) -> list[tuple[str, Closeness]]:
    everything = frozenset(candidates)
    rank(everything)  # first, so that a ranker that remembers remembers what the others share
    alone = [(name, rank(everything - {name})) for name in candidates]
    return sorted(
        alone, key=lambda item: (-item[1].special_mismatches, item[1].agreement, item[1].sqnr_db)
    )


def _shortest(
    order: list[str],
    in_float: Closeness,
    judged: Callable[[Sequence[str]], Closeness],
    meets: Callable[[Closeness], bool],
) -> tuple[list[str], Closeness]:
    """By bisection between none, which misses, and all, which meets."""
    missing, meeting, reached = 0, len(order), in_float
    while meeting - missing > 1:
        middle = (missing + meeting) // 2
        found = judged(order[:middle])
        if meets(found):
            meeting, reached = middle, found
        else:
            missing = middle
    return order[:meeting], reached


def _without_needless(
    kept: list[str],
    reached: Closeness,
    judged: Callable[[Sequence[str]], Closeness],
    meets: Callable[[Closeness], bool],
) -> tuple[list[str], Closeness]:
    for name in list(reversed(kept))[:MAX_DROPS]:
        fewer = [other for other in kept if other != name]
        found = judged(fewer)
        if meets(found):
            kept, reached = fewer, found
    return kept, reached
