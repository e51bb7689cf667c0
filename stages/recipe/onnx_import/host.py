"""Nodes that no kind means: the original node, run by the host."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import NodeProto

from stages.recipe.graph import Attribute
from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.evaluation import as_tensor, is_small
from stages.recipe.onnx_import.node import captured_names, operand_names, subgraphs
from stages.recipe.onnx_import.translation import GraphBuilder, Translation


def emit_host_call(translation: Translation, opsets: Mapping[str, int], why: str) -> None:
    """Append the node as a `host_call`; `why` it isn't another kind, where one could be meant."""
    builder = translation.builder
    node = _with_captured_constants(builder, translation.node.proto)
    names = operand_names(node)
    results = tuple(name for name in node.output if name)
    versions = {domain or "ai.onnx": version for domain, version in opsets.items()}
    attributes: dict[str, Attribute] = {
        "node": node.SerializeToString(deterministic=True),
        "names": names,
        "results": results,
        "opsets": tuple(f"{domain}:{versions[domain]}" for domain in sorted(versions)),
    }
    if why:
        attributes["why"] = why
    builder.append(
        translation.node.label,
        Kind.HOST_CALL,
        [builder.resolve(name) for name in names],
        results,
        attributes,
    )


def _with_captured_constants(builder: GraphBuilder, original: NodeProto) -> NodeProto:
    """The node, small constants that its subgraphs capture moved into them.

    ONNX Runtime infers shapes inside a Scan or Loop from such constants; as operands it can't.
    """
    captured = [
        (name, builder.constants[value])
        for name in captured_names(original)
        if (value := builder.resolve(name)) in builder.constants
    ]
    small = [as_tensor(name, data) for name, data in captured if is_small(data)]
    if not small:
        return original
    node = NodeProto()
    node.CopyFrom(original)
    for graph in subgraphs(node):
        graph.initializer.extend(small)
    return node
