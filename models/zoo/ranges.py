"""A quantisation with nominal ranges: for timing, what counts is that a value is int8."""

from __future__ import annotations

import onnx

from stages.compiler.quantization import Quantization, Range
from stages.recipe.onnx_import import import_model

NOMINAL = Range(-8.0, 8.0)
"""One range for all: concatenation, pooling and addition need no change of scale then, which
vendors' tools arrange too."""


def nominal_quantization(model: onnx.ModelProto) -> Quantization:
    """The same range for every float activation of a model.

    Raises:
        InputError, CompileError: the model can't be imported.
    """
    graph, constants = import_model(model)
    floats = (name for name, type_ in graph.types.items() if type_.dtype.is_float)
    return Quantization({name: NOMINAL for name in floats if name not in constants}, frozenset())
