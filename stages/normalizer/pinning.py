"""Inputs that are known beforehand become constants."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import numpy_helper

from stages.errors import InputError
from stages.tensors import Array


def pin_inputs(model: onnx.ModelProto, values: Mapping[str, Array]) -> onnx.ModelProto:
    """A copy of the model in which the named inputs are initialisers.

    Axes, shapes and pads that a graph takes as inputs make its shapes depend on data; pinned, they
    fold away.

    Raises:
        InputError: the model has no such input.
    """
    pinned = onnx.ModelProto()
    pinned.CopyFrom(model)
    inputs = {value.name: value for value in pinned.graph.input}
    for name, array in values.items():
        if name not in inputs:
            raise InputError(
                f"no input {name!r} to pin",
                where=f"inputs: {', '.join(inputs)}",
                hint="pin inputs by the names that the model gives them",
            )
        pinned.graph.input.remove(inputs[name])
        pinned.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    # IR version 3 wants every initialiser among the inputs.
    pinned.ir_version = max(pinned.ir_version, 4)
    return pinned
