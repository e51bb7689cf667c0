"""Shards: what each of several machines takes of a matrix.

All pairs of one model lie in one shard, since they share the normalised model. The load is spread
by "longest processing time first" (R. L. Graham, Bounds on Multiprocessing Timing Anomalies, SIAM
J. Appl. Math. 17, 1969), at most 4/3 of the best possible.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flows.project.requests import Pair
from stages.errors import InputError

PAIR_BYTES = 96 << 20
"""What a pair costs beside its model's size, in bytes of model: the line through the CPU seconds of
docs/scaling/costs.csv over the sizes of the normalised models crosses zero there."""


@dataclass(frozen=True, slots=True)
class Shard:
    """What one machine takes. Shards are numbered from 0."""

    number: int
    pairs: tuple[Pair, ...]
    load_bytes: int

    def models(self) -> tuple[str, ...]:
        """Its models, in the order of its pairs."""
        return tuple(dict.fromkeys(pair.model for pair in self.pairs))


def split(pairs: Iterable[Pair], count: int, sizes: Mapping[str, int]) -> tuple[Shard, ...]:
    """The pairs in at most `count` shards: fewer where there are fewer models.

    `sizes` holds each model's size in bytes. The same pairs give the same shards, in whatever order
    they come.

    Raises:
        InputError: `count` is below one.
    """
    if count < 1:
        raise InputError(
            f"{count} shards", where="the number of shards", hint="give a number of at least 1"
        )
    by_model: dict[str, list[Pair]] = {}
    for pair in sorted(set(pairs)):
        by_model.setdefault(pair.model, []).append(pair)
    loads = {model: len(own) * (sizes[model] + PAIR_BYTES) for model, own in by_model.items()}
    taken: list[tuple[int, int, list[str]]] = [
        (0, number, []) for number in range(min(count, len(by_model)))
    ]
    for model in sorted(by_model, key=lambda model: (-loads[model], model)):
        load, number, models = heapq.heappop(taken)
        heapq.heappush(taken, (load + loads[model], number, [*models, model]))
    return tuple(
        Shard(number, tuple(pair for model in sorted(models) for pair in by_model[model]), load)
        for load, number, models in sorted(taken, key=lambda entry: entry[1])
    )
