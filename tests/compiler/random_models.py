"""Random models: a few inputs, a chain of random operators, a few outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from stages.tensors import Array
from tests.compiler import random_contractions as contractions
from tests.compiler import random_mixture as mixture
from tests.compiler import random_movement as movement
from tests.compiler import random_pointwise as pointwise
from tests.compiler import random_quantized as quantized
from tests.compiler.model_builder import Choices, ModelBuilder

_Maker = Callable[[ModelBuilder, Choices], None]
_MAKERS: tuple[_Maker, ...] = (
    contractions.conv,
    contractions.conv,
    contractions.matmul,
    contractions.conv_transpose,
    contractions.squeeze_and_excite,
    contractions.attention,
    pointwise.activation,
    pointwise.positive_chain,
    pointwise.binary,
    pointwise.binary,
    pointwise.comparison,
    pointwise.rounding,
    pointwise.pooling,
    pointwise.reduction,
    pointwise.normalisation,
    movement.concat,
    movement.slice_box,
    movement.split,
    movement.pad,
    movement.resize,
    movement.transpose,
    movement.reshape,
    movement.gather,
    movement.expand,
    mixture.integers,
    mixture.other_floats,
    mixture.host_call,
)
_QUANTIZED: tuple[_Maker, ...] = (
    quantized.quantized_conv,
    quantized.quantized_conv,
    quantized.quantized_matmul,
    quantized.quantized_sum,
    pointwise.pooling,
    movement.concat,
    movement.slice_box,
    movement.reshape,
    movement.transpose,
    movement.pad,
)
_SHAPES = (
    *((1, 8, 6, 6), (1, 3, 12, 12), (1, 16, 10, 9), (2, 5, 7, 5), (1, 24, 14, 14)),
    *((1, 6, 20), (2, 7, 9), (1, 12, 16), (1, 40, 33)),
    *((4, 16), (1, 96), (7, 33), (1, 1), (5,)),
    *((1, 16, 40, 20), (1, 3, 64, 48), (3, 48, 31), (1, 64, 17, 17), (70, 120), (1, 600)),
)


@dataclass(frozen=True)
class RandomModel:
    """A model, and what to feed it."""

    model: onnx.ModelProto
    feeds: Mapping[str, Array]
    is_quantized: bool


def random_model(choices: Choices, most_steps: int) -> RandomModel:
    """A model of at most so many steps, each a few operators."""
    is_quantized = choices.integer(0, 4) == 1
    builder = ModelBuilder(np.random.default_rng(choices.integer(0, 1 << 16)))
    for _ in range(choices.integer(1, 2)):
        builder.input(choices.pick(_SHAPES))
    makers = _QUANTIZED if is_quantized else _MAKERS
    for _ in range(choices.integer(1, most_steps)):
        choices.pick(makers)(builder, choices)
    made = builder.values[len(builder.inputs) :]
    outputs = made[-1:] if made else builder.values[:1]
    for _ in range(choices.integer(0, 2)):
        extra = choices.pick(builder.values)
        if extra not in outputs:
            outputs.append(extra)
    return RandomModel(builder.model(outputs), builder.feeds, is_quantized)
