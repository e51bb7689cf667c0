"""How far a model's own outputs move when its inputs hardly do: its floor.

A comparison can't be sharper than this: two right executions differ by at least as much, because
they round in different orders (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd
edition, section 1.6: the forward error is the condition number times the backward error).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

import numpy as np

from stages.evaluation.accuracy import compare_floats, compare_integers
from stages.tensors import Array, DType

RELATIVE_MOVE = 1e-6
"""About eight units in the last place of float32: less than a long sum loses by its order."""
MOVES = 3
"""Moves tried for each sample. One alone may happen to flip no rounding at all."""

_COARSE_STEPS = {DType.F16: 2.0**-10, DType.BF16: 2.0**-7}

Values = Mapping[str, Array]


def floors_db(
    run: Callable[[Values], Values], sample: Values, outputs: Values
) -> dict[str, float | None]:
    """For each output the lowest SQNR of the reference against itself, in dB, over all moves.

    `outputs` are those of the sample as it is. None where the model has no float input to move;
    infinite where nothing changed.
    """
    floors: dict[str, float | None] = dict.fromkeys(outputs)
    if not any(_is_float(array) for array in sample.values()):
        return floors
    for seed in range(MOVES):
        shifted = run(moved(sample, seed))
        for name, expected in outputs.items():
            known = floors[name]
            floors[name] = min(inf if known is None else known, _sqnr_db(shifted[name], expected))
    return floors


def moved(sample: Values, seed: int) -> dict[str, Array]:
    """A sample whose float inputs are moved by normally distributed parts of `RELATIVE_MOVE`.

    A type that can't hold so small a move is moved by its own precision.
    """
    generator = np.random.default_rng(seed)
    return {
        name: _moved(array, generator) if _is_float(array) else array
        for name, array in sample.items()
    }


def _moved(array: Array, generator: np.random.Generator) -> Array:
    step = _COARSE_STEPS.get(DType.of(array.dtype), RELATIVE_MOVE)
    parts = generator.standard_normal(array.shape)
    return np.asarray(array.astype(np.float64) * (1 + step * parts)).astype(array.dtype)


def _is_float(array: Array) -> bool:
    return array.dtype.kind not in "iubO"


def _sqnr_db(actual: Array, expected: Array) -> float:
    if expected.dtype.kind in "iub":
        return compare_integers(actual, expected).sqnr_db
    accuracy = compare_floats(actual, expected)
    return -inf if accuracy.special_mismatches else accuracy.sqnr_db
