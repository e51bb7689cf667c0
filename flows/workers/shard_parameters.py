"""What a worker is told of its shard, as JSON that a flow run can carry, and what becomes of it.
Knows no Prefect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flows.project.params import HARDWARE_KEY, MODELS_KEY
from flows.project.requests import Pair
from flows.steps.stage_calls import Stage
from stages.errors import InputError

_SEPARATOR = "/"
_WHERE = "the parameters of the shard"


@dataclass(frozen=True, slots=True)
class Crew:
    """The workers of a Prefect pool, and into how many shards a matrix is cut for them."""

    shards: int
    work_pool: str


def crew_of(shards: int | None, work_pool: str) -> Crew | None:
    """The crew that a command or a flow run asks for; None where it asks for none.

    Raises:
        InputError: shards without a pool, or a pool without shards.
    """
    if shards is None and not work_pool:
        return None
    if shards is None or not work_pool:
        raise InputError(
            "shards need a work pool" if work_pool == "" else "a work pool needs shards",
            where="--shards and --work-pool",
            hint="give both: `--shards 8 --work-pool NAME`; `prefect work-pool ls` lists pools",
        )
    return Crew(shards, work_pool)


@dataclass(frozen=True, slots=True)
class Checkout:
    """What the workers check out.

    `project` is a folder on their machines; empty means the one that their code belongs to, or that
    RECIPE_ROOT names. `tree` is a commit, fetched where it is missing; None means the folder as it
    is. `params` overlay params.yaml, by dotted key. `jobs` None means one a core.
    """

    project: str = ""
    tree: str | None = None
    params: Mapping[str, object] = field(default_factory=dict)
    jobs: int | None = None


@dataclass(frozen=True, slots=True)
class ShardParameters:
    """What one worker is told. Steps of the `forced` stages run even where they are fresh."""

    number: int
    pairs: tuple[Pair, ...]
    checkout: Checkout = Checkout()
    forced: tuple[Stage, ...] = ()

    def overlay(self) -> dict[str, object]:
        """The overlay, with the matrix narrowed to the shard: reading a small graph is quick."""
        models = list(dict.fromkeys(pair.model for pair in self.pairs))
        hardware = list(dict.fromkeys(pair.hardware for pair in self.pairs))
        return {**self.checkout.params, MODELS_KEY: models, HARDWARE_KEY: hardware}

    def as_json(self) -> dict[str, Any]:
        """The parameters of the flow `matrix-shard`."""
        return {
            "number": self.number,
            "pairs": [f"{pair.model}{_SEPARATOR}{pair.hardware}" for pair in self.pairs],
            "project": self.checkout.project,
            "tree": self.checkout.tree,
            "params": dict(self.checkout.params),
            "jobs": self.checkout.jobs,
            "forced": [stage.value for stage in self.forced],
        }


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a shard. `shared`: its results are there for others."""

    shard: ShardParameters
    shared: bool
    message: str


Say = Callable[[str], None]
Dispatch = Callable[[Sequence[ShardParameters], Say], list[Fate]]
"""Gives shards to workers, waits for all, and says on the way how they fare."""


def read_parameters(
    number: int, pairs: Sequence[str], checkout: Checkout, forced: Sequence[str]
) -> ShardParameters:
    """The values of a flow run's parameters.

    Raises:
        InputError: no pairs, a pair isn't MODEL/HARDWARE, or there is no such stage.
    """
    if not pairs:
        raise InputError("a shard without pairs", where=_WHERE, hint="give MODEL/HARDWARE pairs")
    stages = [stage.value for stage in Stage]
    for name in forced:
        if name not in stages:
            raise InputError(
                f"no stage {name!r}", where=_WHERE, hint=f"one of: {', '.join(stages)}"
            )
    return ShardParameters(number, tuple(map(_pair, pairs)), checkout, tuple(map(Stage, forced)))


def _pair(text: str) -> Pair:
    model, separator, hardware = text.partition(_SEPARATOR)
    if not model or not separator or not hardware or _SEPARATOR in hardware:
        raise InputError(f"{text!r} is no pair", where=_WHERE, hint="give MODEL/HARDWARE")
    return Pair(model, hardware)
