"""A shard as the parameters of a Prefect flow run: JSON out, checked values in; no Prefect here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flows.requests import Pair
from flows.stage_calls import Stage
from stages.errors import InputError

_SEPARATOR = "/"
_WHERE = "the parameters of the shard"


@dataclass(frozen=True, slots=True)
class ShardParameters:
    """What one worker is told. `params` overlay params.yaml, by dotted key."""

    number: int
    pairs: tuple[Pair, ...]
    params: Mapping[str, object]
    forced: tuple[Stage, ...]

    def overlay(self) -> dict[str, object]:
        """The overlay, with the matrix narrowed to the shard: reading a small graph is quick."""
        models = list(dict.fromkeys(pair.model for pair in self.pairs))
        hardware = list(dict.fromkeys(pair.hardware for pair in self.pairs))
        return {**self.params, "matrix.models": models, "matrix.hardware": hardware}

    def as_json(self) -> dict[str, Any]:
        """For `run_deployment`."""
        return {
            "number": self.number,
            "pairs": [f"{pair.model}{_SEPARATOR}{pair.hardware}" for pair in self.pairs],
            "params": dict(self.params),
            "forced": [stage.value for stage in self.forced],
        }


def read_parameters(
    pairs: Sequence[str], number: int, params: Mapping[str, object], forced: Sequence[str]
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
    return ShardParameters(
        number, tuple(map(_pair, pairs)), dict(params), tuple(map(Stage, forced))
    )


def _pair(text: str) -> Pair:
    model, separator, hardware = text.partition(_SEPARATOR)
    if not model or not separator or not hardware or _SEPARATOR in hardware:
        raise InputError(f"{text!r} is no pair", where=_WHERE, hint="give MODEL/HARDWARE")
    return Pair(model, hardware)
