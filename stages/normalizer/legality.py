"""Models that onnx's own checker wouldn't pass are refused at the door, with its reason."""

from __future__ import annotations

from math import prod

import onnx
import onnx_ir as ir

from stages.errors import InputError
from stages.normalizer.skeleton import skeleton

_EXPORT_HINT = "export the model again, or check that the file wasn't damaged"


def check_legal(model: ir.Model) -> None:
    """onnx's checker on the graph, its large weights left out.

    Raises:
        InputError: an attribute is missing or unknown, a name is made twice, and so on.
    """
    try:
        onnx.checker.check_model(skeleton(model))
    except (onnx.checker.ValidationError, RuntimeError, ValueError) as error:
        raise InputError(
            f"the graph isn't legal: {_reason(error)}",
            where=f"graph {model.graph.name!r}",
            hint=_EXPORT_HINT,
        ) from error


def check_tensor(tensor: onnx.TensorProto, where: str) -> None:
    """A tensor holds as many elements as its shape says.

    Raises:
        InputError: it holds more or fewer, or its shape is negative.
    """
    if min(tensor.dims, default=0) < 0:
        raise InputError(
            f"tensor {tensor.name!r} has shape {list(tensor.dims)}", where=where, hint=_EXPORT_HINT
        )
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return
    if not tensor.raw_data:
        _check_typed(tensor, where)
        return
    try:
        bits = ir.DataType(tensor.data_type).bitwidth
    except (ValueError, TypeError) as error:
        raise InputError(
            f"tensor {tensor.name!r} has the unknown element type {tensor.data_type}",
            where=where,
            hint=_EXPORT_HINT,
        ) from error
    wanted = -(-prod(tensor.dims) * bits // 8)
    if len(tensor.raw_data) != wanted:
        raise InputError(
            f"tensor {tensor.name!r} of shape {list(tensor.dims)} holds {len(tensor.raw_data)} "
            f"bytes, not {wanted}",
            where=where,
            hint=_EXPORT_HINT,
        )


def _check_typed(tensor: onnx.TensorProto, where: str) -> None:
    """Elements in a field of their type: onnx reads them, or says why it can't."""
    try:
        onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"tensor {tensor.name!r} can't be read: {_reason(error)}",
            where=where,
            hint=_EXPORT_HINT,
        ) from error


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(":. ") if lines else type(error).__name__
