"""Shape rules of contractions and pooling."""

from __future__ import annotations

from stages.recipe.graph import Operator
from stages.recipe.shapes import (
    Declared,
    Operands,
    Types,
    first,
    legal_length,
    need,
    present,
    same_family,
)
from stages.recipe.window import Window
from stages.tensors import Shape, TensorType


def conv(operator: Operator, operands: Operands, _: Declared) -> Types:
    """[batch, out, *windows that fit]."""
    x, weight, *_bias = present(operands)
    window, group = _contraction(operator, operands)
    need(
        weight.shape[1] * group == x.shape[1],
        f"weights {weight} in {group} groups read {weight.shape[1] * group} channels, "
        f"the operand {x} has {x.shape[1]}",
        "weights of conv are [out, in/group, *kernel]",
    )
    need(
        weight.shape[0] % group == 0,
        f"{weight.shape[0]} output channels don't divide into {group} groups",
        "weights of conv are [out, in/group, *kernel]",
        "group",
    )
    _legal_bias(operator, operands, weight.shape[0])
    extents = _positive(operator, window.result_extents(x.shape[2:]), x)
    return (TensorType(x.dtype, (x.shape[0], weight.shape[0], *extents)),)


def conv_transpose(operator: Operator, operands: Operands, _: Declared) -> Types:
    """[batch, out, *(extent - 1) * stride + output_padding + span - pads]."""
    x, weight, *_bias = present(operands)
    window, group = _contraction(operator, operands)
    padding = legal_length(operator, "output_padding", x.rank - 2)
    need(
        weight.shape[0] == x.shape[1] and x.shape[1] % group == 0,
        f"weights {weight} in {group} groups don't match the {x.shape[1]} channels of {x}",
        "weights of conv_transpose are [in, out/group, *kernel]",
    )
    out = weight.shape[1] * group
    _legal_bias(operator, operands, out)
    extents = _positive(operator, window.spread_extents(x.shape[2:], padding), x)
    return (TensorType(x.dtype, (x.shape[0], out, *extents)),)


def pooling(operator: Operator, operands: Operands, _: Declared) -> Types:
    """[batch, channels, *windows that fit]."""
    x = first(operands)
    _spatial(operator, x)
    axes = x.rank - 2
    kernel = legal_length(operator, "kernel", axes)
    if "overhang" in operator.attributes:
        legal_length(operator, "overhang", axes)
    window = _window(operator, kernel)
    extents = _positive(operator, window.result_extents(x.shape[2:]), x)
    return (TensorType(x.dtype, (*x.shape[:2], *extents)),)


def matmul(operator: Operator, operands: Operands, _: Declared) -> Types:
    """numpy's matmul of the first two operands; the bias broadcasts to it."""
    a, b, *bias = present(operands)
    same_family(operator, [a, b])
    need(
        a.rank > 0 and b.rank > 0,
        f"matmul reads {a} and {b}",
        "operands of matmul have at least one axis",
    )
    left = (1, *a.shape) if a.rank == 1 else a.shape
    right = (*b.shape, 1) if b.rank == 1 else b.shape
    need(
        left[-1] == right[-2],
        f"matmul contracts {left[-1]} elements of {a} with {right[-2]} of {b}",
        "the last axis of a and the last but one of b must be equal",
    )
    rank = max(len(left), len(right)) - 2
    heads = [(1,) * (rank - len(shape) + 2) + shape[:-2] for shape in (left, right)]
    need(
        all(x == y or 1 in (x, y) for x, y in zip(*heads, strict=True)),
        f"the stacks of {a} and {b} don't broadcast",
        "extents before the last two axes must be equal or 1",
    )
    stack = tuple(y if x == 1 else x for x, y in zip(*heads, strict=True))
    rows = () if a.rank == 1 else (left[-2],)
    columns = () if b.rank == 1 else (right[-1],)
    shape = (*stack, *rows, *columns)
    for addend in bias:
        need(
            addend.rank <= len(shape)
            and all(
                x in (1, y)
                for x, y in zip(addend.shape, shape[len(shape) - addend.rank :], strict=True)
            ),
            f"the bias {addend} doesn't broadcast to the product {list(shape)}",
            "give a bias that broadcasts to the result",
        )
    return (TensorType(a.dtype, shape),)


def _contraction(operator: Operator, operands: Operands) -> tuple[Window, int]:
    x, weight, *_bias = present(operands)
    same_family(operator, [x, weight])
    _spatial(operator, x)
    need(
        weight.rank == x.rank,
        f"weights {weight} have another rank than the operand {x}",
        "weights have one axis for each axis of the operand",
    )
    group = operator.integer("group")
    need(group >= 1, f"group is {group}", "group is 1 or more", "group")
    legal_length(operator, "dilations", x.rank - 2)
    return _window(operator, weight.shape[2:]), group


def _spatial(operator: Operator, x: TensorType) -> None:
    need(
        3 <= x.rank <= 5,
        f"{operator.kind} reads {x}",
        "it needs a batch, a channel and 1 to 3 spatial axes",
    )


def _window(operator: Operator, kernel: Shape) -> Window:
    axes = len(kernel)
    strides = legal_length(operator, "strides", axes)
    legal_length(operator, "pads", 2 * axes)
    if "dilations" in operator.attributes:
        legal_length(operator, "dilations", axes)
    window = Window.of(operator, kernel)
    for name, values in (
        ("kernel", kernel),
        ("strides", strides),
        ("dilations", window.dilations),
    ):
        need(
            all(value >= 1 for value in values),
            f"{name} {list(values)} of {operator.kind} hold a number below 1",
            f"{name} are 1 or more",
            name,
        )
    return window


def _positive(operator: Operator, extents: Shape, x: TensorType) -> Shape:
    need(
        all(extent >= 0 for extent in extents),
        f"the window of {operator.kind} doesn't fit the padded operand {x}: "
        f"result extents would be {list(extents)}",
        "take a smaller kernel or larger pads",
        "pads",
    )
    return extents


def _legal_bias(operator: Operator, operands: Operands, channels: int) -> None:
    if len(operands) < 3 or operands[2] is None:
        return
    need(
        operands[2].shape == (channels,),
        f"the bias of {operator.kind} is {operands[2]}, it has {channels} output channels",
        "give one number for each output channel",
    )
