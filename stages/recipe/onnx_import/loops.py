"""Shapes of a Loop's state: static where one turn of the body keeps them.

ONNX's own rule gives up, since a body may change the shape of its state from turn to turn. Whether
it does can be seen: if the body makes the initial shape from the initial shape, it always does.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import GraphProto, TensorProto, TypeProto, helper, shape_inference

from stages.recipe.onnx_import.node import Node, captured_names, subgraphs
from stages.recipe.onnx_import.value_types import ValueType, read_type, value_info
from stages.tensors import DType, TensorType


def loop_state_types(
    node: Node, opsets: Mapping[str, int], operands: Mapping[str, TypeProto]
) -> dict[str, TensorType]:
    """The types of a Loop's final state, as far as its body keeps them."""
    initial = [_read(operands, name) for name in node.proto.input[2:]]
    state = [given for given in initial if isinstance(given, TensorType)]
    captured = {name: operands[name] for name in captured_names(node.proto) if name in operands}
    body = next(iter(subgraphs(node.proto)))
    if len(state) != len(initial) or len(body.input) != len(state) + 2:
        return {}
    made = _types_after_a_turn(body, state, captured, opsets)
    pairs = zip(node.proto.output, state, made, strict=False)
    return {name: given for name, given, after in pairs if name and given == after}


def _read(operands: Mapping[str, TypeProto], name: str) -> ValueType | None:
    return read_type(operands[name]) if name in operands else None


def _types_after_a_turn(
    body: GraphProto,
    state: list[TensorType],
    captured: Mapping[str, TypeProto],
    opsets: Mapping[str, int],
) -> list[object]:
    given = [TensorType(DType.I64, ()), TensorType(DType.BOOL, ()), *state]
    names = [value.name for value in body.input]
    inputs = [value_info(name, known) for name, known in zip(names, given, strict=True)]
    inputs += [helper.make_value_info(name, known) for name, known in captured.items()]
    outputs = [
        helper.make_tensor_value_info(
            value.name, value.type.tensor_type.elem_type or TensorProto.UNDEFINED, None
        )
        for value in body.output
    ]
    graph = helper.make_graph(list(body.node), "turn", inputs, outputs, list(body.initializer))
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    inferred = shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=imports), data_prop=True
    )
    return [read_type(value.type) for value in inferred.graph.output[1 : len(state) + 1]]
