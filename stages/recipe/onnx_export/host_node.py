"""A `host_call` as an ONNX model of one node, which ONNX Runtime can run."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import ModelProto, NodeProto, ValueInfoProto, helper

from stages.recipe.graph import Operator
from stages.tensors import TensorType

_IR_VERSION = 8
_IR_VERSION_OF_NEW_OPSETS = 10
_LAST_OPSET_OF_OLD_IR = 18


def host_node(operator: Operator) -> NodeProto:
    """The original node of a `host_call`."""
    data = operator.attributes["node"]
    assert isinstance(data, bytes)
    node = NodeProto()
    node.ParseFromString(data)
    return node


def words(operator: Operator, attribute: str) -> tuple[str, ...]:
    """An attribute that is a list of words."""
    value = operator.attributes[attribute]
    assert isinstance(value, tuple)
    return tuple(str(item) for item in value)


def host_opsets(operator: Operator) -> dict[str, int]:
    """The opset versions that the original node was written for, by domain."""
    versions: dict[str, int] = {}
    for entry in words(operator, "opsets"):
        domain, _, version = entry.rpartition(":")
        versions["" if domain == "ai.onnx" else domain] = int(version)
    return versions


def host_call_model(
    operator: Operator,
    operand_types: Sequence[TensorType],
    result_types: Sequence[TensorType],
) -> ModelProto:
    """A model whose graph inputs are the node's operands, under the names that the node knows.

    `operand_types` runs parallel to the operator's inputs, `result_types` to its outputs.
    """
    opsets = host_opsets(operator)
    graph = helper.make_graph(
        [host_node(operator)],
        "host_call",
        [
            _value_info(name, tensor_type)
            for name, tensor_type in zip(words(operator, "names"), operand_types, strict=True)
        ],
        [
            _value_info(name, tensor_type)
            for name, tensor_type in zip(words(operator, "results"), result_types, strict=True)
        ],
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    new = opsets.get("", 0) > _LAST_OPSET_OF_OLD_IR
    version = _IR_VERSION_OF_NEW_OPSETS if new else _IR_VERSION
    return helper.make_model(graph, opset_imports=imports, ir_version=version)


def _value_info(name: str, tensor_type: TensorType) -> ValueInfoProto:
    code = helper.np_dtype_to_tensor_dtype(tensor_type.dtype.numpy)
    return helper.make_tensor_value_info(name, code, tensor_type.shape)
