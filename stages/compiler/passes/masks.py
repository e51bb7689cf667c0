"""Masks as exporters write them, made small: what is constant goes, nothing is expanded early."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.slices import slice_along
from stages.compiler.support import COMPARISONS, POINTWISE
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import Array, Shape, TensorType

_BROADCASTING = (POINTWISE | COMPARISONS) - {Kind.QUANTIZE, Kind.DEQUANTIZE}
_NEUTRAL = {Kind.AND: True, Kind.OR: False}
"""What `and` and `or` leave as it is; the other truth value is their result."""


@dataclass(frozen=True, slots=True)
class SimplifyMasks:
    """A gather at constant places in steps becomes a slice; `and`, `or` and `where` with constant
    conditions become one of their operands; an operator that broadcasts reads what was expanded
    for it, and one of a single tensor is computed before the tensor is expanded.

    A padding mask of BERT arrives as [1, 1, tokens, tokens] truth values, and is a row of numbers
    behind this pass.
    """

    name: str = "simplify_masks"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Apply every rewrite once, in the order of the operators."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            current = editor.operators.get(operator.name)
            if current is None:
                continue
            if current.kind is Kind.GATHER:
                _gather_to_slice(current, editor)
            elif current.kind in _NEUTRAL:
                _drop_constant_logic(current, editor)
            elif current.kind is Kind.WHERE:
                _drop_constant_choice(current, editor)
            current = editor.operators.get(operator.name)
            if current is not None and current.kind in _BROADCASTING:
                _compute_before_expanding(current, editor)
        return editor.finish()


def _gather_to_slice(gather: Operator, editor: GraphEditor) -> None:
    table, places = gather.inputs
    indices = editor.constants.get(places)
    if indices is None or table in editor.constants or not indices.size:
        return
    axis, shape = gather.integer("axis"), editor.types[table].shape
    flat = np.asarray(indices, np.int64).reshape(-1) % shape[axis]
    step = int(flat[1] - flat[0]) if flat.size > 1 else 1
    if step < 1 or not np.array_equal(flat, flat[0] + step * np.arange(flat.size)):
        return
    (result,) = gather.outputs
    attributes = {"shape": editor.types[result].shape}
    if flat.size == shape[axis]:
        reshape = Operator(gather.name, Kind.RESHAPE, (table,), gather.outputs, attributes)
        editor.put(reshape)
        return
    cut_shape = (*shape[:axis], flat.size, *shape[axis + 1 :])
    cut = editor.add_value(f"{result}.slice", TensorType(editor.types[table].dtype, cut_shape))
    box = slice_along(shape, axis, int(flat[0]), int(flat[-1]) + 1, step)
    editor.put(Operator(editor.fresh(f"{gather.name}.slice"), Kind.SLICE, (table,), (cut,), box))
    editor.put(Operator(gather.name, Kind.RESHAPE, (cut,), gather.outputs, attributes))


def _drop_constant_logic(logic: Operator, editor: GraphEditor) -> None:
    neutral = _NEUTRAL[logic.kind]
    for place, value in enumerate(logic.inputs):
        data = editor.constants.get(value)
        if data is not None and bool(np.all(np.asarray(data, np.bool_) == neutral)):
            _become(logic, logic.inputs[1 - place], editor)
            return


def _drop_constant_choice(choice: Operator, editor: GraphEditor) -> None:
    data = editor.constants.get(choice.inputs[0])
    if data is None or not data.size:
        return
    truth = np.asarray(data, np.bool_)
    if truth.all() or not truth.any():
        _become(choice, choice.inputs[1 if truth.all() else 2], editor)


def _become(operator: Operator, value: str, editor: GraphEditor) -> None:
    """Let the operator hand on a value, expanded where its result is larger."""
    shape = editor.types[operator.outputs[0]].shape
    attributes = {"shape": shape}
    kind = Kind.IDENTITY if editor.types[value].shape == shape else Kind.EXPAND
    handed_on = replace(
        operator,
        kind=kind,
        inputs=(value,),
        attributes={} if kind is Kind.IDENTITY else attributes,
    )
    editor.put(handed_on)


def _compute_before_expanding(operator: Operator, editor: GraphEditor) -> None:
    inputs = tuple(_beneath(value, editor) for value in operator.inputs)
    if inputs == operator.inputs:
        return
    (result,) = operator.outputs
    tensor_type = editor.types[result]
    small = _broadcast(editor.types[value].shape for value in inputs)
    if small == tensor_type.shape:
        editor.put(replace(operator, inputs=inputs))
        return
    if sum(value not in editor.constants for value in operator.operands) > 1:
        return
    if result in editor.outputs:
        return
    inner = editor.add_value(f"{result}.small", TensorType(tensor_type.dtype, small))
    editor.put(replace(operator, inputs=inputs, outputs=(inner,)))
    name = editor.fresh(f"{operator.name}.expand")
    attributes = {"shape": tensor_type.shape}
    editor.put(Operator(name, Kind.EXPAND, (inner,), (result,), attributes))


def _beneath(value: str, editor: GraphEditor) -> str:
    """What was expanded to a value, or the value."""
    producer = editor.producer(value)
    while producer is not None and producer.kind in (Kind.EXPAND, Kind.IDENTITY):
        value = producer.inputs[0]
        producer = editor.producer(value)
    return value


def _broadcast(shapes: Iterable[Shape]) -> Shape:
    return tuple(int(extent) for extent in np.broadcast_shapes(*shapes))


@dataclass(frozen=True, slots=True)
class ShareEqual:
    """Operators of the same kind on the same operands become one. Exporters write the mask of
    attention once for each layer, and the same number as a new constant each time."""

    name: str = "share_equal"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Share in the order of the operators, so that whole chains become one."""
        editor = GraphEditor(draft)
        numbers = _equal_constants(draft.constants)
        first: dict[tuple[object, ...], str] = {}
        for operator in draft.graph.operators:
            current = editor.operators[operator.name]
            results = current.outputs
            if current.kind is Kind.HOST_CALL or len(results) != 1 or results[0] in editor.outputs:
                continue
            inputs = tuple(numbers.get(value, value) for value in current.inputs)
            key = (current.kind, inputs, tuple(sorted(current.attributes.items())))
            if key not in first:
                first[key] = results[0]
                continue
            editor.redirect(results[0], first[key])
            editor.drop(current.name)
        return editor.finish()


_COMPARED_BYTES = 4096


def _equal_constants(constants: Mapping[str, Array]) -> dict[str, str]:
    """For each small constant the first one of the same type, shape and bytes."""
    first: dict[tuple[str, Shape, bytes], str] = {}
    return {
        name: first.setdefault((str(data.dtype), data.shape, data.tobytes()), name)
        for name, data in constants.items()
        if data.nbytes <= _COMPARED_BYTES
    }
