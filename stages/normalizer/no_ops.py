"""Operators that change nothing, by their constants and static shapes, become Identity.

The folder then removes them as it removes any Identity. Each rule is exact to the bit: adding zero
isn't among them, since it turns -0 into 0.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from stages.normalizer.operators import ONNX_DOMAIN

_SAME_SHAPE_IS_ENOUGH = frozenset({"Expand", "Flatten", "Reshape", "Squeeze", "Tile", "Unsqueeze"})
_SINGLE_INPUT_IS_ENOUGH = frozenset({"Concat", "Max", "Mean", "Min", "Sum"})


def drop_no_ops(model: ir.Model) -> bool:
    """Turns what does nothing into Identity, in place; says whether there was any."""
    changed = False
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.domain == ONNX_DOMAIN and node.op_type != "Identity" and _does_nothing(node):
            node.op_type = "Identity"
            node.attributes.clear()
            node.resize_inputs(1)
            changed = True
    return changed


def _does_nothing(node: ir.Node) -> bool:
    if len(node.inputs) == 0 or len(node.outputs) != 1 or not _keeps_shape(node):
        return False
    if node.op_type in _SAME_SHAPE_IS_ENOUGH:
        return True
    if node.op_type in _SINGLE_INPUT_IS_ENOUGH:
        return len(node.inputs) == 1
    rule = _RULES.get(node.op_type)
    return rule is not None and rule(node)


def _keeps_shape(node: ir.Node) -> bool:
    source, result = node.inputs[0], node.outputs[0]
    if source is None or source.shape is None or result.shape is None:
        return False
    if not source.shape.is_static() or not result.shape.is_static():
        return False
    return source.shape.numpy() == result.shape.numpy() and source.dtype == result.dtype


def _times_one(node: ir.Node) -> bool:
    factor = node.inputs[1]
    if factor is None or factor.const_value is None or factor.const_value.size != 1:
        return False
    return bool((factor.const_value.numpy() == 1).all())


def _slices_all(node: ir.Node) -> bool:
    """Of the same shape, and walked forwards."""
    steps = node.inputs[4] if len(node.inputs) > 4 else None
    if steps is None:
        return True
    return steps.const_value is not None and bool((steps.const_value.numpy() == 1).all())


def _moves_no_axis(node: ir.Node) -> bool:
    shape = node.outputs[0].shape
    assert shape is not None
    permutation = node.attributes.get_ints("perm", None)
    if permutation is None:
        return len(shape) < 2
    return list(permutation) == list(range(len(shape)))


def _pads_nothing(node: ir.Node) -> bool:
    pads = node.inputs[1]
    if pads is None or pads.const_value is None:
        return False
    return not pads.const_value.numpy().any()


def _clips_nothing(node: ir.Node) -> bool:
    return all(value is None for value in node.inputs[1:])


_RULES: dict[str, Callable[[ir.Node], bool]] = {
    "Clip": _clips_nothing,
    "Div": _times_one,
    "Mul": _times_one,
    "Pad": _pads_nothing,
    "Slice": _slices_all,
    "Transpose": _moves_no_axis,
}
