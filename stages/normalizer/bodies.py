"""Bodies of operators as onnx's schemas give them, for calls that onnx's inliner fails on.

The inliner wants a type for every operand, and finds none where an optional one in the middle is
left empty (Attention with a cache and no mask). The schema itself takes an empty type there.
"""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir
from onnx_ir.passes import common

from stages.normalizer.operators import ONNX_DOMAIN

_DOMAIN = "expanded"


def expand_one_by_one(model: ir.Model, names: list[str]) -> bool:
    """Replaces each call of the named operators by a body made for its operands.

    Returns:
        Whether every call could be replaced; if not, some may have been.
    """
    version = model.opset_imports[ONNX_DOMAIN]
    calls = [
        node
        for node in ir.traversal.RecursiveGraphIterator(model.graph)
        if node.domain == ONNX_DOMAIN and node.op_type in names
    ]
    model.opset_imports[_DOMAIN] = 1
    for index, node in enumerate(calls):
        body = _body(node, version)
        if body is None:
            return False
        body.domain, body.name = _DOMAIN, f"{node.op_type}_{index}"
        function = ir.serde.deserialize_function(body)
        model.functions[function.identifier()] = function
        node.domain, node.op_type = _DOMAIN, body.name
    common.InlinePass()(model)
    common.RemoveUnusedFunctionsPass()(model)  # type: ignore[no-untyped-call]
    model.opset_imports.pop(_DOMAIN, None)
    return True


def _body(node: ir.Node, version: int) -> onnx.FunctionProto | None:
    schema: Any = onnx.defs.get_schema(node.op_type, version)  # its stub lacks what follows
    if not schema.has_context_dependent_function:
        return None
    known = [
        known for known in schema.context_dependent_function_opset_versions if known <= version
    ]
    if not known:
        return None
    content = schema.get_context_dependent_function_with_opset_version(
        max(known),
        ir.to_proto(node).SerializeToString(),
        [_type(value).SerializeToString() for value in node.inputs],
    )
    body = onnx.FunctionProto()
    body.ParseFromString(content)
    del body.output[len(node.outputs) :]
    made = {name for inner in body.node for name in inner.output}
    return body if made >= set(body.output) else None


def _type(value: ir.Value | None) -> onnx.TypeProto:
    made = onnx.TypeProto()
    if value is not None and value.type is not None:
        ir.serde.serialize_type_into(made, value.type)
        if value.shape is not None:
            ir.serde.serialize_shape_into(made, value.shape)
    return made
