"""Constants fold, and with them the shape arithmetic, once every input is static.

`docs/adr/0004-constant-folding.md` says why onnxscript's folder does the bulk and ONNX Runtime
the rest.
"""

from __future__ import annotations

import logging
from math import prod

import onnx
import onnx_ir as ir
from onnx_ir.passes import common

from stages.errors import InputError
from stages.normalizer.no_ops import drop_no_ops
from stages.normalizer.operators import KNOWN_DOMAINS, ONNX_DOMAIN, refuse_random
from stages.normalizer.shapes import infer_shapes

_NO_LIMIT = 1 << 62
_LARGEST_SPREAD = 1 << 26
"""Elements of the largest constant that may be made from fewer."""
_MOST_ROUNDS = 12
_KEPT = frozenset({"DequantizeLinear", "Constant"})
_INT4 = frozenset({ir.DataType.INT4, ir.DataType.UINT4})


def fold_constants(model: ir.Model) -> tuple[ir.Model, str]:
    """Folds, infers shapes and drops dead nodes until nothing changes.

    An `If` whose condition is constant is replaced by the branch taken. A DequantizeLinear of a
    constant stays, since it carries the quantisation; one that operator set 17 can't say (4-bit
    or blocked) folds to floats.

    Returns:
        The model, and what was done in words.
    """
    before = len(model.graph)
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    common.RemoveUnusedNodesPass()(model)
    refuse_random(model)
    for _ in range(_MOST_ROUNDS):
        changed = _fold_once(model)
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
        common.RemoveUnusedNodesPass()(model)
        if _fold_with_onnxruntime(model):
            changed = True
        if infer_shapes(model):
            changed = True
        if drop_no_ops(model):
            changed = True
        if not changed:
            break
    removed = before - len(model.graph)
    return model, f"{removed} nodes fewer" if removed else ""


def _fold_once(model: ir.Model) -> bool:
    from onnxscript.optimizer import _constant_folding as onnxscript_folding

    # What its evaluator can't compute, it says on the log; `_fold_with_onnxruntime` computes it.
    logging.getLogger("onnxscript").setLevel(logging.ERROR)
    folder = onnxscript_folding.FoldConstantsPass(
        shape_inference=True,
        input_size_limit=_NO_LIMIT,
        output_size_limit=_NO_LIMIT,
        should_fold=_may_fold,
    )
    try:
        return bool(folder(model).modified)
    except RuntimeError as error:
        raise InputError(
            f"{error}",
            where=f"graph {model.graph.name!r}",
            hint="cut the graph before this operator, or export the model without it",
        ) from error


def _may_fold(node: ir.Node) -> bool:
    if _grows_too_large(node):
        return False
    if node.domain != ONNX_DOMAIN or node.op_type not in _KEPT:
        return True
    if node.op_type == "Constant" or not node.inputs or node.inputs[0] is None:
        return False
    return node.attributes.get_int("block_size", 0) != 0 or node.inputs[0].dtype in _INT4


def _grows_too_large(node: ir.Node) -> bool:
    """A constant spread out (Expand, ConstantOfShape) is better made when it is needed."""
    shape = node.outputs[0].shape if node.outputs else None
    if shape is None or not shape.is_static():
        return False
    read = sum(v.const_value.size for v in node.inputs if v is not None and v.const_value)
    made = prod(shape.numpy())
    return made > _LARGEST_SPREAD and made > 2 * read


def _fold_with_onnxruntime(model: ir.Model) -> bool:
    """Runs what onnxscript leaves: constant nodes with several outputs, control flow, contrib."""
    changed = False
    for node in list(model.graph):
        operands = _constant_operands(node)
        if operands is None or not _may_fold(node) or node.domain not in KNOWN_DOMAINS:
            continue
        if any(value.is_graph_output() for value in node.outputs):
            continue
        results = _run_alone(node, operands, model)
        if results is None:
            continue
        for value, tensor in zip(node.outputs, results, strict=True):
            constant = ir.Value(
                name=value.name,
                type=ir.TensorType(tensor.dtype),
                shape=ir.Shape(tensor.shape.numpy()),
                const_value=tensor,
            )
            ir.convenience.replace_all_uses_with(value, constant)
            model.graph.register_initializer(constant)
        model.graph.remove(node, safe=True)
        changed = True
    return changed


def _constant_operands(node: ir.Node) -> list[ir.Value] | None:
    """The constants that a node and its subgraphs read; None if they read anything else."""
    operands = [value for value in node.inputs if value is not None]
    for attribute in node.attributes.values():
        graphs = []
        if attribute.type is ir.AttributeType.GRAPH:
            graphs = [attribute.as_graph()]
        elif attribute.type is ir.AttributeType.GRAPHS:
            graphs = list(attribute.as_graphs())
        for graph in graphs:
            operands.extend(_captured(graph))
    if any(value.const_value is None for value in operands):
        return None
    return list({value.name: value for value in operands}.values())


def _captured(graph: ir.Graph) -> list[ir.Value]:
    inside: set[ir.Value] = set(graph.inputs) | set(graph.initializers.values())
    read: list[ir.Value] = []
    for node in ir.traversal.RecursiveGraphIterator(graph):
        inside.update(node.outputs)
        for attribute in node.attributes.values():
            if attribute.type is ir.AttributeType.GRAPH:
                inside.update(attribute.as_graph().inputs)
                inside.update(attribute.as_graph().initializers.values())
        read.extend(value for value in node.inputs if value is not None)
    read.extend(graph.outputs)
    return [value for value in read if value not in inside]


def _run_alone(
    node: ir.Node, operands: list[ir.Value], model: ir.Model
) -> list[ir.TensorProtocol] | None:
    """The node's results as ONNX Runtime computes them; None where it can't."""
    from stages.normalizer.reference import run_in_onnxruntime

    names = [str(value.name) for value in node.outputs if value.name]
    if len(names) != len(node.outputs):
        return None
    tensors = []
    for value in operands:
        assert value.const_value is not None
        tensor = ir.to_proto(value.const_value)
        tensor.name = str(value.name)
        tensors.append(tensor)
    graph = onnx.helper.make_graph(
        [ir.to_proto(node)],
        "constants",
        [],
        [onnx.helper.make_empty_tensor_value_info(name) for name in names],
        tensors,
    )
    imports = [onnx.helper.make_opsetid(k, v) for k, v in model.opset_imports.items()]
    proto = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
    results = run_in_onnxruntime(proto, {}, names)
    if results is None:
        return None
    return [ir.tensor(results[name], name=name) for name in names]
