"""The last touches: outputs that a node makes, names, and nothing that says who exported it."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import common

from stages.normalizer.operators import ONNX_DOMAIN
from stages.normalizer.raising import RECIPE_OPSET

RECIPE_IR_VERSION = 8
"""The IR version that came with operator set 17."""


def mend_split(model: ir.Model) -> str:
    """Drops Split's `num_outputs` below operator set 18, which doesn't know it.

    torch's exporter, asked for operator set 17, leaves it behind; ONNX Runtime then refuses the
    model. Before set 18 equal parts are what no `split` input means.
    """
    count = 0
    if model.opset_imports.get(ONNX_DOMAIN, 1) >= 18:
        return ""
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.domain == ONNX_DOMAIN and node.op_type == "Split" and (
            node.attributes.pop("num_outputs", None) is not None
        ):  # fmt: skip
            count += 1
    return f"{count} Split without num_outputs" if count else ""


def make_outputs(model: ir.Model) -> str:
    """An output that is an input, a constant, or another output too gets a node of its own."""
    seen: set[ir.Value] = set()
    count = 0
    graph = model.graph
    for index, output in enumerate(list(graph.outputs)):
        if output.producer() is not None and output not in seen:
            seen.add(output)
            continue
        name = str(output.name)
        node = ir.node("Identity", inputs=[output])
        (made,) = node.outputs
        made.shape, made.type = output.shape, output.type
        made.name = name
        if output not in seen and output.is_initializer():
            output.name = f"{name}/constant"
        else:
            # An input keeps its name, so the output, which shares it, can't: the caller renames.
            made.name = f"{name}/output"
        graph.append(node)
        graph.outputs[index] = made
        count += 1
    return f"{count} outputs that no node made" if count else ""


def name_nodes(model: ir.Model) -> str:
    """Every node gets a name of its own: its old one if free, or else that of what it makes."""
    taken: set[str] = set()
    count = 0
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        first = next((value.name for value in node.outputs if value.name), None)
        wanted = node.name or first or node.op_type
        name, serial = wanted, 2
        while name in taken:
            name = f"{wanted}_{serial}"
            serial += 1
        taken.add(name)
        if name != node.name:
            node.name = name
            count += 1
    return f"{count} nodes" if count else ""


def strip_traces(model: ir.Model) -> str:
    """Drops doc strings and metadata: exporters write stack traces and paths there."""
    common.ClearMetadataAndDocStringPass()(model)
    model.doc_string = None
    model.metadata_props.clear()
    common.RemoveUnusedFunctionsPass()(model)  # type: ignore[no-untyped-call]
    common.RemoveUnusedOpsetsPass()(model)
    model.opset_imports.setdefault(ONNX_DOMAIN, RECIPE_OPSET)
    changed = model.ir_version != RECIPE_IR_VERSION
    stated = model.ir_version
    model.ir_version = RECIPE_IR_VERSION
    return f"IR version {stated} to {RECIPE_IR_VERSION}" if changed else ""
