"""A model without its weights, for tools that work on protobuf messages (limit: 2 GB)."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import onnx_ir as ir

LARGEST_KEPT_BYTES = 1024
"""Smaller constants stay: they may be shapes, axes or pads that the tools look at."""


def skeleton(model: ir.Model) -> onnx.ModelProto:
    """The model as a message, large initialisers turned into inputs after the real ones.

    The model itself is unchanged.
    """
    proto = onnx.ModelProto()
    large = _large_initializers(model)
    for value in large:
        model.graph.initializers.pop(str(value.name))
    try:
        ir.serde.serialize_model_into(proto, model)
    finally:
        for value in large:
            model.graph.register_initializer(value)
    for value in large:
        assert value.const_value is not None
        proto.graph.input.append(
            onnx.helper.make_tensor_value_info(
                str(value.name), int(value.const_value.dtype), list(value.const_value.shape.numpy())
            )
        )
    return proto


def through_proto(
    model: ir.Model, transform: Callable[[onnx.ModelProto], onnx.ModelProto]
) -> ir.Model:
    """The model after `transform`, its large initialisers put back in place."""
    weights = {str(value.name): value.const_value for value in _large_initializers(model)}
    result = ir.from_proto(transform(skeleton(model)))
    for value in list(result.graph.inputs):
        tensor = weights.get(str(value.name))
        if tensor is not None:
            result.graph.inputs.remove(value)
            value.const_value = tensor
            result.graph.register_initializer(value)
    return result


def _large_initializers(model: ir.Model) -> list[ir.Value]:
    return [
        value
        for value in model.graph.initializers.values()
        if value.const_value is not None and value.const_value.nbytes > LARGEST_KEPT_BYTES
    ]
