"""Nodes that no kind means: the original node, run by the host."""

from __future__ import annotations

from collections.abc import Mapping

from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.node import operand_names
from stages.recipe.onnx_import.translation import Translation


def emit_host_call(translation: Translation, opsets: Mapping[str, int]) -> None:
    """Append the node as a `host_call`."""
    node = translation.node
    names = operand_names(node.proto)
    results = tuple(name for name in node.proto.output if name)
    versions = {domain or "ai.onnx": version for domain, version in opsets.items()}
    translation.builder.append(
        node.label,
        Kind.HOST_CALL,
        [translation.builder.resolve(name) for name in names],
        results,
        {
            "node": node.proto.SerializeToString(deterministic=True),
            "names": names,
            "results": results,
            "opsets": tuple(f"{domain}:{versions[domain]}" for domain in sorted(versions)),
        },
    )
