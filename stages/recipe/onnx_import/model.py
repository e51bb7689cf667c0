"""The import: a normalised ONNX model becomes a graph of typed operators."""

from __future__ import annotations

from types import MappingProxyType

from onnx import ModelProto
from onnx.inliner import inline_local_functions

from stages.errors import CompileError
from stages.recipe.graph import Graph
from stages.recipe.onnx_import.analysis import Analysis, analyse
from stages.recipe.onnx_import.elements import Elements
from stages.recipe.onnx_import.enclosure import enclose
from stages.recipe.onnx_import.finish import finish
from stages.recipe.onnx_import.host import emit_host_call
from stages.recipe.onnx_import.node import Node
from stages.recipe.onnx_import.table import TRANSLATORS
from stages.recipe.onnx_import.translation import GraphBuilder, NotRepresentable, Translation
from stages.recipe.onnx_import.value_types import Cause, Untyped
from stages.recipe.operators import IllegalOperatorError, infer
from stages.tensors import Array, TensorType

_NO_ELEMENTS: Elements = MappingProxyType({})


def import_model(
    model: ModelProto, elements: Elements = _NO_ELEMENTS
) -> tuple[Graph, dict[str, Array]]:
    """The graph that a normalised model means, and the data of its constants by name.

    What no kind can mean becomes a `host_call` that carries the original node. `elements` are the
    data of initialisers that have none in the model: see `parse_model`.

    Raises:
        InputError: the model is broken: an attribute has the wrong type, weights lie outside it, a
            node reads what nothing makes.
        CompileError: a value that must be a tensor of static shape isn't one.
    """
    if model.functions:
        model = inline_local_functions(model)
    analysis = analyse(model, elements)
    _require_typed_inputs(analysis)
    outputs = [value.name for value in model.graph.output]
    nodes = enclose(analysis, outputs)
    builder = _start(analysis)
    for node in nodes:
        _translate(builder, node, analysis.opsets)
    return finish(builder, model.graph.name or "model", analysis.inputs, outputs)


def _require_typed_inputs(analysis: Analysis) -> None:
    for name in analysis.inputs:
        answer = analysis.types.get(name, Untyped("has no type"))
        if isinstance(answer, Untyped):
            raise CompileError(
                f"model input %{name} {answer.reason}",
                where=f"input %{name}",
                hint="bind its axes with --bind NAME=EXTENT"
                if answer.cause is Cause.DYNAMIC
                else "recipes hold tensors of numbers and booleans only",
            )


def _start(analysis: Analysis) -> GraphBuilder:
    types = {
        name: answer for name, answer in analysis.types.items() if isinstance(answer, TensorType)
    }
    taken = set(analysis.types) | set(analysis.foreign)
    return GraphBuilder(types, dict(analysis.constants), taken, aliases=dict(analysis.renames))


def _translate(builder: GraphBuilder, node: Node, opsets: dict[str, int]) -> None:
    translator = TRANSLATORS.get((node.domain, node.proto.op_type))
    translation = Translation(builder, node)
    why = ""
    if translator is not None and not _is_empty(translation):
        operator_count = len(builder.operators)
        try:
            translator(translation)
            _check(builder, operator_count)
            return
        except NotRepresentable as answer:
            why = answer.why
        except IllegalOperatorError as refusal:
            why = refusal.problem
        builder.rewind(operator_count, node.proto.output)
    emit_host_call(translation, opsets, why)


def _check(builder: GraphBuilder, operator_count: int) -> None:
    """Whether the table accepts the new operators, and gives the types that the model has.

    Raises:
        IllegalOperatorError: an operator breaks the table.
        NotRepresentable: it makes another type.
    """
    for operator in builder.operators[operator_count:]:
        operands = [builder.types[name] if name else None for name in operator.inputs]
        declared = [builder.types[name] for name in operator.outputs]
        if list(infer(operator, operands, declared)) != declared:
            raise NotRepresentable(f"{operator.kind} of its operands makes another type")


def _is_empty(translation: Translation) -> bool:
    return not any(translation.node.proto.output)
