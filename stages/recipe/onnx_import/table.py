"""The whole translation table: (domain, operator type) -> translation function."""

from __future__ import annotations

from stages.recipe.onnx_import import (
    activations,
    contractions,
    elementwise,
    indexing,
    integer_products,
    microsoft,
    movement,
    normalisation,
    pooling,
    quantization,
    recurrent,
    reductions,
    resizing,
)
from stages.recipe.onnx_import.node import DEFAULT_DOMAIN, MICROSOFT
from stages.recipe.onnx_import.translation import Translator

_FAMILIES = (
    activations,
    contractions,
    elementwise,
    indexing,
    integer_products,
    movement,
    normalisation,
    pooling,
    quantization,
    recurrent,
    reductions,
    resizing,
)

TRANSLATORS: dict[tuple[str, str], Translator] = {
    (DEFAULT_DOMAIN, name): translator
    for family in _FAMILIES
    for name, translator in family.TABLE.items()
} | {(MICROSOFT, name): translator for name, translator in microsoft.TABLE.items()}
