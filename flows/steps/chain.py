"""The six stages and what each needs: the one description of a pair's way through them."""

from __future__ import annotations

from dataclasses import dataclass

from flows.steps.stage_calls import Stage


@dataclass(frozen=True, slots=True)
class Link:
    """A stage, and the stages whose files it reads."""

    stage: Stage
    needs: tuple[Stage, ...]


CHAIN = (
    Link(Stage.NORMALIZE, ()),
    Link(Stage.COMPILE, (Stage.NORMALIZE,)),
    Link(Stage.VALIDATE, (Stage.NORMALIZE, Stage.COMPILE)),
    Link(Stage.BENCHMARK, (Stage.COMPILE,)),
    Link(Stage.GATE, (Stage.BENCHMARK, Stage.VALIDATE)),
    Link(Stage.THERMAL_STRESS, (Stage.COMPILE,)),
)
"""In an order in which every stage comes after what it needs."""
