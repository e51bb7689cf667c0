"""The export: a recipe as a standard ONNX model, each fused group a model-local function.

It opens in Netron and runs in ONNX Runtime. Decisions lie in `metadata_props`: those about a group
on its node, those about a value on its `value_info`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from onnx import (
    FunctionProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from stages.recipe.decisions import Allocation, Group, Recipe, Tile
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind
from stages.recipe.onnx_export.emitter import type_code
from stages.recipe.onnx_export.host_node import host_opsets
from stages.recipe.onnx_export.table import operator_to_nodes
from stages.recipe.operators import OperatorClass, signature
from stages.recipe.printer import print_cascade
from stages.tensors import Array, DType, TensorType

DOMAIN = "recipe"
_IR_VERSION = 10  # the first with metadata on nodes
_OPSET = 17
_ROUNDING = (Kind.CAST, Kind.QUANTIZE, Kind.HOST_CALL)


def export_recipe(recipe: Recipe, constants: Mapping[str, Array]) -> ModelProto:
    """The recipe as an ONNX model that computes the same.

    `constants` holds the data of the graph's constants, by name.

    Raises:
        CompileError: an operator has no form in opset 17.
    """
    graph = recipe.graph
    operators = {operator.name: operator for operator in graph.operators}
    opsets = _opsets(graph.operators)
    functions: list[FunctionProto] = []
    nodes: list[NodeProto] = []
    taken: set[str] = set()
    cascades = {name: item for item in recipe.cascades for name in item.groups}
    for group in recipe.groups:
        members = [operators[name] for name in group.operators]
        function = _function(graph, members, _function_name(group.name, taken), opsets)
        node = helper.make_node(
            function.name, list(function.input), list(function.output), group.name, domain=DOMAIN
        )
        _set_properties(node, _group_properties(group))
        if group.name in cascades:
            _set_properties(node, {"cascade": print_cascade(cascades[group.name])})
        functions.append(function)
        nodes.append(node)
    return helper.make_model(
        helper.make_graph(
            nodes,
            graph.name,
            [_value_info(recipe, name) for name in graph.inputs],
            [_value_info(recipe, name) for name in graph.outputs],
            [numpy_helper.from_array(constants[name], name) for name in graph.constants],
            value_info=[_value_info(recipe, name) for name in _inner_values(graph, nodes)],
        ),
        functions=functions,
        opset_imports=_imports({**opsets, DOMAIN: 1}),
        ir_version=_IR_VERSION,
        producer_name="recipe",
        doc_string=f"recipe for {recipe.target.hardware} {recipe.target.version}",
    )


def _function(
    graph: Graph, members: Sequence[Operator], name: str, opsets: Mapping[str, int]
) -> FunctionProto:
    made = {output for operator in members for output in operator.outputs}
    read = dict.fromkeys(operand for operator in members for operand in operator.operands)
    names = {operator.name for operator in members}
    outside = set(graph.outputs)
    for operator in graph.operators:
        if operator.name not in names:
            outside.update(operator.operands)
    outputs = [
        output for operator in members for output in operator.outputs if output in outside
    ] or list(members[-1].outputs)
    opset = opsets[""]
    types = _types_inside(graph, members, outputs)
    nodes = [node for operator in members for node in operator_to_nodes(operator, types, opset)]
    return helper.make_function(
        DOMAIN,
        name,
        [value for value in read if value not in made],
        outputs,
        nodes,
        _imports(opsets),
    )


def _types_inside(
    graph: Graph, members: Sequence[Operator], outputs: Sequence[str]
) -> dict[str, TensorType]:
    """Value types as a kernel keeps them: narrow floats are float32 until they leave the group.

    Only `cast` and `quantize` round inside; what moves narrow data leaves them narrow.
    """
    types = dict(graph.types)
    for operator in members:
        moves = signature(operator.kind).operator_class is OperatorClass.MOVEMENT
        if moves and all(types[name].dtype is not DType.F32 for name in operator.operands):
            continue
        for name in operator.outputs:
            is_narrow = types[name].dtype in (DType.F16, DType.BF16)
            if is_narrow and name not in outputs and operator.kind not in _ROUNDING:
                types[name] = TensorType(DType.F32, types[name].shape)
    return types


def _opsets(operators: Sequence[Operator]) -> dict[str, int]:
    """Opset versions by domain: 17, or what a later `host_call` was written for."""
    versions = {"": _OPSET}
    for operator in operators:
        if operator.kind is Kind.HOST_CALL:
            for domain, version in host_opsets(operator).items():
                versions[domain] = max(version, versions.get(domain, 1))
    return versions


def _imports(versions: Mapping[str, int]) -> list[OperatorSetIdProto]:
    return [helper.make_opsetid(domain, version) for domain, version in versions.items()]


def _function_name(group: str, taken: set[str]) -> str:
    """A group's name as an identifier that no other group has."""
    base = re.sub(r"\W", "_", group, flags=re.ASCII) or "group"
    name, count = base, 1
    while name in taken:
        count += 1
        name = f"{base}_{count}"
    taken.add(name)
    return name


def _inner_values(graph: Graph, nodes: Sequence[NodeProto]) -> list[str]:
    made = dict.fromkeys(name for node in nodes for name in node.output)
    return [name for name in made if name not in graph.outputs]


def _value_info(recipe: Recipe, name: str) -> ValueInfoProto:
    tensor_type = recipe.graph.types[name]
    value = helper.make_tensor_value_info(name, type_code(tensor_type.dtype), tensor_type.shape)
    properties = {"layout": str(recipe.layout(name))}
    if name in recipe.allocations:
        properties |= _allocation_properties(recipe.allocations[name])
    _set_properties(value, properties)
    return value


def _allocation_properties(allocation: Allocation) -> dict[str, str]:
    return {
        "memory": allocation.memory,
        "offset_bytes": str(allocation.offset_bytes),
        "size_bytes": str(allocation.size_bytes),
        "lifetime": str(allocation.lifetime),
        "live": f"[{allocation.start},{allocation.stop})",
    }


def _group_properties(group: Group) -> dict[str, str]:
    properties = {"engine": str(group.engine)}
    if group.reason:
        properties["reason"] = group.reason
    if group.tile is not None:
        properties |= _tile_properties(group.tile)
    return properties


def _tile_properties(tile: Tile) -> dict[str, str]:
    return {
        "tile": ",".join(map(str, tile.extents)),
        "tile_reduction": str(tile.reduction),
        "tile_order": ",".join(map(str, tile.order)),
        "tile_slots": str(tile.slots),
    }


def _set_properties(proto: NodeProto | ValueInfoProto, properties: Mapping[str, str]) -> None:
    for key, value in properties.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = f"recipe.{key}", value
