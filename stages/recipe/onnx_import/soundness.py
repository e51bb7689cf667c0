"""Whether the nodes of a model can be read at all: operators known, operands there."""

from __future__ import annotations

from onnx import NodeProto, defs

from stages.errors import CompileError, InputError
from stages.recipe.onnx_import.analysis import Analysis
from stages.recipe.onnx_import.node import Node, operand_names

_RUNTIME_DOMAINS = ("ai.onnx", "com.microsoft")
_RUNTIME_OPERATORS = frozenset({"SimplifiedLayerNormalization"})
"""What ONNX Runtime adds to the default domain."""
_CHECK = "check the model with onnx.checker.check_model"


def require_sound(analysis: Analysis, nodes: list[NodeProto]) -> None:
    """Every operator is known, has the operands it needs, and each of them is made before it.

    Raises:
        CompileError: nobody defines an operator.
        InputError: a node reads what nothing makes, makes what is made already, has too few
            operands, or came after its opset.
    """
    defined = {*analysis.inputs, *analysis.constants, *analysis.foreign}
    for proto in nodes:
        node = analysis.node(proto)
        _require_known(node)
        for name in operand_names(proto):
            if name not in defined:
                raise InputError(
                    f"{node.title} reads %{name}, which no input, constant or earlier node makes",
                    where=f"node {node.label}",
                    hint=_CHECK,
                )
        _define(node, defined)


def _define(node: Node, defined: set[str]) -> None:
    for name in filter(None, node.proto.output):
        if name in defined:
            raise InputError(
                f"{node.title} makes %{name}, which is made before",
                where=f"node {node.label}",
                hint=_CHECK,
            )
        defined.add(name)


def _require_known(node: Node) -> None:
    name = node.proto.op_type
    if not defs.has(name, node.domain):
        if node.domain.startswith(_RUNTIME_DOMAINS) or name in _RUNTIME_OPERATORS:
            return
        raise CompileError(
            f"operator {node.title} is unknown: neither onnx nor ONNX Runtime defines it",
            where=f"node {node.label}",
            hint="replace it by standard operators, or give the model a function that defines it",
        )
    try:
        least = defs.get_schema(name, node.version, node.domain).min_input
    except defs.SchemaError:
        raise InputError(
            f"{node.title} isn't in opset {node.version}, which the model says it uses",
            where=f"node {node.label}",
            hint=_CHECK,
        ) from None
    if len(node.proto.input) < least:
        raise InputError(
            f"{node.title} has {len(node.proto.input)} operands, it needs {least}",
            where=f"node {node.label}",
            hint=_CHECK,
        )
