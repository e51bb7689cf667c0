"""Operands that an operator wants to be of one type are of one type."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from stages.errors import InputError
from stages.normalizer.operators import ONNX_DOMAIN, place


def require_one_type(model: ir.Model) -> None:
    """Checks each operator's operands against its schema's type variables.

    Neither onnx's checker nor its shape inference looks at this; ONNX Runtime refuses such a
    model, and a compiler would have to guess.

    Raises:
        InputError: an operator mixes element types where its schema wants one.
    """
    version = model.opset_imports[ONNX_DOMAIN]
    for node in model.graph:
        if node.domain == ONNX_DOMAIN:
            _check(node, onnx.defs.get_schema(node.op_type, version))


def _check(node: ir.Node, schema: onnx.defs.OpSchema) -> None:
    seen: dict[str, ir.Value] = {}
    last = len(schema.inputs) - 1
    for slot, value in enumerate(node.inputs):
        if value is None or value.dtype is None:
            continue
        formal = schema.inputs[min(slot, last)]
        if formal.option == onnx.defs.OpSchema.FormalParameterOption.Variadic and (
            not formal.is_homogeneous
        ):
            continue
        first = seen.setdefault(formal.type_str, value)
        if first.dtype != value.dtype:
            assert first.dtype is not None
            raise InputError(
                f"{node.op_type} mixes {first.dtype.name} ({first.name!r}) and "
                f"{value.dtype.name} ({value.name!r}), where operands of one type are wanted",
                where=place(node),
                hint="cast one of them, or export the model again in one type",
            )
