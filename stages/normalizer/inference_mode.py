"""Training-mode operators become inference-mode ones."""

from __future__ import annotations

import onnx_ir as ir

from stages.errors import InputError
from stages.normalizer.operators import ONNX_DOMAIN, place

_EVAL_HINT = "export the model in eval mode (torch: model.eval())"


def use_inference_mode(model: ir.Model) -> str:
    """BatchNormalization normalises by its stored statistics, Dropout passes its input on.

    Operator sets before 7 say so by `is_test`, those before 14 by the number of outputs, later
    ones by `training_mode` (an attribute of BatchNormalization, an input of Dropout).

    Raises:
        InputError: something reads the running statistics that only training mode makes.
    """
    version = model.opset_imports.get(ONNX_DOMAIN, 1)
    changed: list[str] = []
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.domain != ONNX_DOMAIN:
            continue
        if node.op_type == "BatchNormalization" and _freeze_batch_norm(node, version):
            changed.append(node.op_type)
        if node.op_type == "Dropout" and _freeze_dropout(node, version):
            changed.append(node.op_type)
    counts = {kind: changed.count(kind) for kind in sorted(set(changed))}
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def _freeze_batch_norm(node: ir.Node, version: int) -> bool:
    if version >= 14:
        training = node.attributes.get_int("training_mode", 0) != 0
        node.attributes.pop("training_mode", None)
    elif version >= 7:
        training = sum(bool(value.name) for value in node.outputs) > 1
    else:
        training = node.attributes.get_int("is_test", 0) == 0
        node.attributes["is_test"] = ir.AttrInt64("is_test", 1)
    if not training:
        return False
    for value in node.outputs[1:]:
        if value.uses() or value.is_graph_output():
            raise InputError(
                f"training-mode BatchNormalization whose running statistics {value.name!r} are "
                "read: in inference mode they don't exist",
                where=place(node),
                hint=_EVAL_HINT,
            )
    node.resize_outputs(1)
    return True


def _freeze_dropout(node: ir.Node, version: int) -> bool:
    if version < 7:
        training = node.attributes.get_int("is_test", 0) == 0
        node.attributes["is_test"] = ir.AttrInt64("is_test", 1)
        return training
    if version < 12 or len(node.inputs) < 3 or node.inputs[2] is None:
        return False
    mode = node.inputs[2].const_value
    node.replace_input_with(2, None)
    return mode is None or bool(mode.numpy().any())
