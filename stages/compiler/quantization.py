"""What the passes quantise by: ranges of activations, kinds of scales, operators left in float.

`stages/quantizer/` makes it from a quantisation file; docs/quantization.md says how.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from stages.recipe.explanation import Weighed


class WeightScales(StrEnum):
    """How many scales a tensor of weights has."""

    PER_CHANNEL = "per_channel"  # one for each output channel
    PER_TENSOR = "per_tensor"


class ActivationScales(StrEnum):
    """Where the zero of a quantised activation lies."""

    ASYMMETRIC = "asymmetric"  # at the integer that the range asks for
    SYMMETRIC = "symmetric"  # at 0: the range is widened to [-t, t]


@dataclass(frozen=True, slots=True)
class Range:
    """The values that an activation takes; zero is always within."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Quantization:
    """Ranges by tensor, and the operators that stay in float: those read no quantised value, and
    their weights aren't quantised.

    `channel_factors` are what the channels of a value are divided by, and the weights that read it
    multiplied by, before anything is quantised; `ranges` are those of the divided values. `notes`
    and `weighed` say how it came to be, and go into the recipe with it.
    """

    ranges: Mapping[str, Range]
    keep: frozenset[str]
    weights: WeightScales = WeightScales.PER_CHANNEL
    activations: ActivationScales = ActivationScales.ASYMMETRIC
    notes: tuple[str, ...] = ()
    weighed: tuple[Weighed, ...] = ()
    channel_factors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
