"""Values that a recipe can't hold (strings, sequences, 4-bit, dynamic shapes) stay inside one node.

Nodes joined by such values are enclosed in the branch of an `If` whose condition is true: one ONNX
node, which the host runs whole, and which shows only tensors of static shape.
"""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import TopologicalSorter

import numpy as np
from onnx import NodeProto, helper

from stages.errors import CompileError
from stages.recipe.onnx_import.analysis import Analysis
from stages.recipe.onnx_import.node import Node, operand_names
from stages.recipe.onnx_import.soundness import require_sound
from stages.recipe.onnx_import.value_types import Cause, Untyped, value_info
from stages.tensors import DType, TensorType


def enclose(analysis: Analysis, outputs: list[str]) -> list[Node]:
    """The live nodes in execution order, those around untyped values enclosed.

    Raises:
        CompileError: a graph output has no static tensor type, or an operator is unknown.
        InputError: a node reads what nothing makes, or has too few operands.
    """
    nodes = _live(analysis, outputs)
    require_sound(analysis, nodes)
    for node in nodes:
        _require_well_typed(analysis, analysis.node(node))
    for output in outputs:
        _require_typed(analysis, output, nodes)
    regions = _regions(analysis, nodes)
    if not regions:
        return [analysis.node(node) for node in nodes]
    inside = {index for region in regions for index in region}
    kept = [node for index, node in enumerate(nodes) if index not in inside]
    for region in regions:
        members = [nodes[index] for index in sorted(region)]
        kept.append(_enclosing_node(analysis, members, _others(nodes, region), outputs))
    return [analysis.node(node) for node in _sorted(kept, analysis)]


def _live(analysis: Analysis, outputs: list[str]) -> list[NodeProto]:
    wanted = set(outputs)
    kept: list[NodeProto] = []
    for node in reversed(analysis.nodes):
        if any(name in wanted for name in node.output):
            kept.append(node)
            wanted.update(operand_names(node))
    return kept[::-1]


def _require_well_typed(analysis: Analysis, node: Node) -> None:
    for name in node.proto.output:
        answer = analysis.types.get(name)
        if isinstance(answer, Untyped) and answer.cause is Cause.ILL_TYPED:
            operands = [f"%{read}: {analysis.types.get(read)}" for read in node.proto.input if read]
            raise CompileError(
                f"%{name} {answer.reason}",
                where=f"node {node.label} ({node.title} of {', '.join(operands)})",
                hint="check the model with onnx.checker.check_model(model, full_check=True)",
            )


def _require_typed(analysis: Analysis, name: str, nodes: list[NodeProto]) -> None:
    answer = analysis.types.get(name, Untyped("has no type"))
    if isinstance(answer, TensorType):
        return
    makers = [analysis.node(node) for node in nodes if name in node.output]
    maker = makers[0] if makers else None
    raise CompileError(
        f"model output %{name} {answer.reason}",
        where=f"node {maker.label} ({maker.title})" if maker else f"output %{name}",
        hint="end the model before this node, and run the rest in the application",
    )


def _regions(analysis: Analysis, nodes: list[NodeProto]) -> list[set[int]]:
    """Sets of nodes that untyped values join, each with whatever lies between its members."""
    producers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    reads = [
        {producers[name] for name in operand_names(node) if name in producers} for node in nodes
    ]
    regions: list[set[int]] = []
    for index, node in enumerate(nodes):
        joined = {index}
        untyped = [name for name in node.output if name and _is_untyped(analysis, name)]
        for name in operand_names(node):
            if _is_untyped(analysis, name):
                untyped.append(name)
                joined |= {producers[name]} if name in producers else set()
        if untyped:
            regions = _merged(regions, joined)
    while True:
        closed: list[set[int]] = []
        for region in regions:
            closed = _merged(closed, region | _between(region, reads))
        if closed == regions:
            return regions
        regions = closed


def _is_untyped(analysis: Analysis, name: str) -> bool:
    return not isinstance(analysis.types.get(name), TensorType)


def _merged(regions: list[set[int]], added: set[int]) -> list[set[int]]:
    apart = [region for region in regions if not region & added]
    joined = added.union(*(region for region in regions if region & added))
    return sorted([*apart, joined], key=min)


def _between(region: set[int], reads: list[set[int]]) -> set[int]:
    """Nodes that depend on the region and that the region depends on."""
    after: set[int] = set()
    for index in range(len(reads)):
        if reads[index] & (region | after):
            after.add(index)
    before: set[int] = set()
    for index in reversed(range(len(reads))):
        if index in region or index in before:
            before |= reads[index]
    return after & before


def _others(nodes: list[NodeProto], region: set[int]) -> list[NodeProto]:
    return [node for index, node in enumerate(nodes) if index not in region]


def _enclosing_node(
    analysis: Analysis, members: list[NodeProto], rest: Iterable[NodeProto], outputs: list[str]
) -> NodeProto:
    made = [name for node in members for name in node.output if name]
    read = {name for node in rest for name in operand_names(node)} | set(outputs)
    shown = {name: analysis.types[name] for name in made if name in read}
    infos = [
        value_info(name, answer) for name, answer in shown.items() if isinstance(answer, TensorType)
    ]
    operands = dict.fromkeys(name for node in members for name in operand_names(node))
    foreign = [analysis.foreign[name] for name in operands if name in analysis.foreign]
    branch = helper.make_graph(members, "region", [], infos, foreign)
    last = analysis.node(members[-1])
    condition = _unused(analysis, f"{last.label}.condition")
    analysis.constants[condition] = np.array(True)
    analysis.types[condition] = TensorType(DType.BOOL, ())
    results = [_unused(analysis, f"{name}.result") for name in shown]
    for name, result in zip(shown, results, strict=True):
        analysis.types[result] = shown[name]
        analysis.renames[name] = result
    return helper.make_node(
        "If", [condition], results, f"{last.label}.region", then_branch=branch, else_branch=branch
    )


def _unused(analysis: Analysis, base: str) -> str:
    name = base
    while name in analysis.types:
        name += "_"
    return name


def _sorted(nodes: list[NodeProto], analysis: Analysis) -> list[NodeProto]:
    """Nodes in an order in which each runs after what it reads."""
    producers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for index, node in enumerate(nodes):
        names = (analysis.renames.get(name, name) for name in operand_names(node))
        sorter.add(index, *(producers[name] for name in names if name in producers))
    return [nodes[index] for index in sorter.static_order()]
