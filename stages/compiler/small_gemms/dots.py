"""Dot products: a product of one row or one column as a multiplication and a sum of vectors.

An array multiplies a single row as slowly as a whole block of rows. The vector unit doesn't: where
it is wide, or the array deep, `sum(a * b)` is done before the array is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from stages.compiler.draft import GraphEditor
from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.tensors import Shape, TensorType


def has_one_row(operator: Operator, editor: GraphEditor) -> bool:
    """Whether a contraction is a product of one row or one column (for each of its groups)."""
    return _product_shape(operator, editor) is not None


def macs(operator: Operator, editor: GraphEditor) -> int:
    """Multiply-accumulates of a contraction with one row or column."""
    shape = _product_shape(operator, editor)
    assert shape is not None
    return prod(shape)


def to_dots(operator: Operator, tail: Sequence[Operator], editor: GraphEditor) -> list[Operator]:
    """Replace a contraction that `has_one_row`, and the functions of one value behind it, in the
    editor. Returns the operators that stand there now."""
    stem = f"{operator.name}.dots"
    shape = _product_shape(operator, editor)
    assert shape is not None
    for old in (operator, *tail):
        editor.drop(old.name)
    made: list[Operator] = []
    operands = _operands(operator, editor)
    factors = [
        _reshaped(value, wanted, stem, editor, made)
        for value, wanted in zip(operator.inputs[:2], operands, strict=True)
    ]
    result = editor.types[operator.outputs[0]]
    axis = len(shape) - 1 if operator.kind is Kind.CONV else _summed_axis(operator, editor)
    summed = tuple(1 if place == axis else extent for place, extent in enumerate(shape))
    value = _add(
        Kind.MUL, factors, TensorType(result.dtype, shape), f"{stem}.product", editor, made
    )
    attributes: dict[str, Attribute] = {"axes": (axis,), "keepdims": 1}
    held = TensorType(result.dtype, summed)
    value = _add(Kind.REDUCE_SUM, [value], held, f"{stem}.sum", editor, made, attributes)
    if len(operator.operands) > 2:
        bias = operator.inputs[2]
        if operator.kind is Kind.CONV:
            bias = _reshaped(bias, summed, stem, editor, made)
        value = _add(Kind.ADD, [value, bias], held, f"{stem}.biased", editor, made)
    return _ended(operator, tail, value, summed, made, editor)


def _ended(
    operator: Operator,
    tail: Sequence[Operator],
    value: str,
    shape: Shape,
    made: list[Operator],
    editor: GraphEditor,
) -> list[Operator]:
    """The tail on the sums, and the name that the rest of the graph reads."""
    last = tail[-1] if tail else operator
    (result,) = last.outputs
    for follower in tail:
        held = TensorType(editor.types[follower.outputs[0]].dtype, shape)
        after = editor.add_value(f"{operator.name}.dots.{follower.kind}", held)
        name = editor.fresh(follower.name)
        inputs = (value, *follower.inputs[1:])
        made.append(editor.put(replace(follower, name=name, inputs=inputs, outputs=(after,))))
        value = after
    if shape != editor.types[result].shape:
        attributes: dict[str, Attribute] = {"shape": editor.types[result].shape}
        name = editor.fresh(result)
        made.append(editor.put(Operator(name, Kind.RESHAPE, (value,), (result,), attributes)))
        return made
    made[-1] = editor.put(replace(made[-1], outputs=(result,)))
    return made


def _product_shape(operator: Operator, editor: GraphEditor) -> Shape | None:
    """The shape of all single products; None where a contraction has more than a row."""
    if operator.kind not in (Kind.MATMUL, Kind.CONV):
        return None
    a, b = (editor.types[value].shape for value in operator.inputs[:2])
    if operator.kind is Kind.CONV:
        single = a[0] == 1 and prod(a[2:]) == 1 and prod(b[2:]) == 1
        plain = operator.integer("group") == 1 and not any(operator.integers("pads"))
        return (b[0], b[1]) if single and plain else None
    if len(a) < 2 or len(b) < 2:
        return None
    batch = editor.types[operator.outputs[0]].shape[:-2]
    if b[-1] == 1:
        shape, whole = (*batch, a[-2], a[-1]), a
    elif a[-2] == 1:
        shape, whole = (*batch, a[-1], b[-1]), b
    else:
        return None
    # One operand must be as large as the product: the other is repeated in its place.
    return shape if prod(whole) == prod(shape) else None


def _summed_axis(operator: Operator, editor: GraphEditor) -> int:
    rank = editor.types[operator.outputs[0]].rank
    return rank - 1 if editor.types[operator.inputs[1]].shape[-1] == 1 else rank - 2


def _operands(operator: Operator, editor: GraphEditor) -> tuple[Shape, Shape]:
    """The shapes in which both operands are multiplied element by element."""
    a, b = (editor.types[value].shape for value in operator.inputs[:2])
    if operator.kind is Kind.CONV:
        return (1, a[1]), (b[0], b[1])
    if b[-1] == 1:
        return a, (*b[:-2], 1, b[-2])
    return (*a[:-2], a[-1], 1), b


def _reshaped(
    value: str, shape: Shape, stem: str, editor: GraphEditor, made: list[Operator]
) -> str:
    """A value in another shape: a constant's data, the operand of a dequantize, or a view."""
    held = editor.types[value]
    producer = editor.producer(value)
    if producer is not None and producer.kind is Kind.DEQUANTIZE:
        inner = _reshaped(producer.inputs[0], shape, stem, editor, made)
        axis = producer.integer("axis")
        if axis >= 0:
            axis = _moved_axis(held.shape, shape, axis)
        result = editor.add_value(f"{stem}.float", TensorType(held.dtype, shape))
        inputs = (inner, *producer.inputs[1:])
        dequantize = Operator(
            editor.fresh(result), Kind.DEQUANTIZE, inputs, (result,), {"axis": axis}
        )
        made.append(editor.put(dequantize))
        return result
    if held.shape == shape:
        return value
    if value in editor.constants:
        return editor.add_constant(value, editor.constants[value].reshape(shape))
    return _add(
        Kind.RESHAPE,
        [value],
        TensorType(held.dtype, shape),
        f"{stem}.view",
        editor,
        made,
        {"shape": shape},
    )


def _moved_axis(shape: Shape, wanted: Shape, axis: int) -> int:
    """Where an axis lies once axes of one element came or went."""
    if shape[axis] == 1:
        return -1
    place = sum(1 for extent in shape[:axis] if extent > 1)
    return [index for index, extent in enumerate(wanted) if extent > 1][place]


def _add(
    kind: Kind,
    inputs: Sequence[str],
    held: TensorType,
    stem: str,
    editor: GraphEditor,
    made: list[Operator],
    attributes: dict[str, Attribute] | None = None,
) -> str:
    name = editor.fresh(stem)
    value = editor.add_value(name, held)
    made.append(editor.put(Operator(name, kind, tuple(inputs), (value,), attributes or {})))
    return value
