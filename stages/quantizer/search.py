"""Which operators to leave in float so that an accuracy limit is met: few, by a stated search.

1. All in int8. If that meets the limit, nothing is left in float.
2. All in float. If that misses it, no choice of operators can be expected to meet it.
3. Rank: each operator alone in int8, the others in float; the worst comes first. Noise adds up, so
   what hurts alone is what to take out.
4. Grow: the first 1, 2, 4, 8, ... of that ranking, until the limit is met; then the shortest
   beginning between the last two, by bisection.
5. Drop: halves of those, quarters and so on down to single ones, least harmful first, go back to
   int8 where the limit still holds (Zeller and Hildebrandt, "Simplifying and Isolating
   Failure-Inducing Input", 2002).

The answer meets the limit. It needs not be the least possible number of operators: that would take
a trial of every subset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stages.quantizer.closeness import Closeness

Kept = frozenset[str]
Attempt = Callable[[Sequence[str]], Closeness | None]
MAX_DROPS = 32
"""Trials that step 5 may take."""


@dataclass(frozen=True, slots=True)
class Found:
    """`kept` are the operators to leave in float; None where even all of them miss the limit.

    `alone` is the closeness of each operator in int8 alone, worst first.
    """

    kept: tuple[str, ...] | None
    reached: Closeness
    in_int8: Closeness
    alone: tuple[tuple[str, Closeness], ...]
    trials: int


@dataclass(frozen=True, slots=True)
class Judge:
    """How a recipe with some operators in float is judged.

    `measure` tells how close it comes on every sample. `attempt` tells the same where the limit is
    met, and None where it is missed: it may stop at the first sample that misses. `rank` may look
    at fewer samples; it decides nothing but the order.
    """

    measure: Callable[[Kept], Closeness]
    attempt: Callable[[Kept], Closeness | None]
    rank: Callable[[Kept], Closeness]
    meets: Callable[[Closeness], bool]


def fewest_in_float(candidates: Sequence[str], judge: Judge) -> Found:
    """Search among `candidates`."""
    trials = 1
    in_int8 = judge.measure(frozenset())
    if judge.meets(in_int8):
        return Found((), in_int8, in_int8, (), trials)
    trials += 1
    in_float = judge.measure(frozenset(candidates))
    if not judge.meets(in_float):
        return Found(None, in_float, in_int8, (), trials)
    alone = _ranked(candidates, judge.rank)
    trials += len(candidates) + 1

    def attempt(kept: Sequence[str]) -> Closeness | None:
        nonlocal trials
        trials += 1
        return judge.attempt(frozenset(kept))

    kept, reached = _shortest([name for name, _ in alone], in_float, attempt)
    kept, reached = _without_needless(kept, reached, attempt)
    return Found(tuple(kept), reached, in_int8, tuple(alone), trials)


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
    order: list[str], in_float: Closeness, attempt: Attempt
) -> tuple[list[str], Closeness]:
    """Doubled from one until the limit is met, then bisected; all of them meet it."""
    missing, meeting, reached = 0, len(order), in_float
    length = 1
    while length < len(order):
        found = attempt(order[:length])
        if found is not None:
            meeting, reached = length, found
            break
        missing = length
        length *= 2
    while meeting - missing > 1:
        middle = (missing + meeting) // 2
        found = attempt(order[:middle])
        if found is not None:
            meeting, reached = middle, found
        else:
            missing = middle
    return order[:meeting], reached


def _without_needless(
    kept: list[str], reached: Closeness, attempt: Attempt
) -> tuple[list[str], Closeness]:
    left = MAX_DROPS
    size = len(kept) // 2
    while size and left:
        end = len(kept)
        while end > 0 and left:
            fewer = kept[: max(end - size, 0)] + kept[end:]
            end -= size
            if not fewer:
                continue  # none is what int8 alone was
            left -= 1
            found = attempt(fewer)
            if found is not None:
                kept, reached = fewer, found
        size //= 2
    return kept, reached
