"""Convolutions and matrix products."""

from __future__ import annotations

import numpy as np

from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.translation import (
    Attributes,
    NotRepresentable,
    Translation,
    Translator,
)
from stages.recipe.onnx_import.windows import read_window, split_pads
from stages.tensors import Shape, TensorType


def conv_attributes(t: Translation, x: str, w: str) -> dict[str, int | Shape]:
    """The attributes of a convolution, `auto_pad` resolved.

    Raises:
        NotRepresentable: there are no spatial axes, or more than three.
    """
    spatial = t.shape(x)[2:]
    if not 1 <= len(spatial) <= 3:
        raise NotRepresentable(f"it has {len(spatial)} spatial axes")
    window = read_window(t.node, t.shape(w)[2:], spatial)
    return {
        "strides": window.strides,
        "pads": window.pads,
        "dilations": window.dilations,
        "group": t.node.integer("group", 1),
    }


def conv(t: Translation) -> None:
    """Conv."""
    t.emit(Kind.CONV, present(t), conv_attributes(t, t.operand(0), t.operand(1)))


def present(t: Translation) -> list[str]:
    """The operands, an omitted last one cut off."""
    operands = t.operands()
    while operands and not operands[-1]:
        operands.pop()
    return operands


def conv_transpose(t: Translation) -> None:
    """ConvTranspose; `output_shape` and `auto_pad` become pads, as ONNX's text defines them."""
    x, w = t.operand(0), t.operand(1)
    spatial = t.shape(x)[2:]
    rank = len(spatial)
    if not 1 <= rank <= 3:
        raise NotRepresentable(f"it has {rank} spatial axes")
    strides = t.node.integers("strides") or (1,) * rank
    dilations = t.node.integers("dilations") or (1,) * rank
    output_padding = t.node.integers("output_padding") or (0,) * rank
    pads = t.node.integers("pads") or (0,) * (2 * rank)
    mode = t.node.word("auto_pad", "NOTSET")
    if t.node.has_attribute("output_shape") or mode in {"SAME_UPPER", "SAME_LOWER"}:
        wanted = t.result.shape[2:]
        full = [
            strides[axis] * (spatial[axis] - 1)
            + output_padding[axis]
            + (t.shape(w)[2 + axis] - 1) * dilations[axis]
            + 1
            for axis in range(rank)
        ]
        totals = [have - want for have, want in zip(full, wanted, strict=True)]
        output_padding = tuple(
            extra + max(-total, 0) for extra, total in zip(output_padding, totals, strict=True)
        )
        pads = split_pads([max(total, 0) for total in totals], upper=mode == "SAME_UPPER")
    elif mode == "VALID":
        pads = (0,) * (2 * rank)
    attributes: Attributes = {
        "strides": strides,
        "pads": pads,
        "dilations": dilations,
        "group": t.node.integer("group", 1),
        "output_padding": output_padding,
    }
    t.emit(Kind.CONV_TRANSPOSE, present(t), attributes)


def matmul_of(t: Translation, a: str, b: str, output: str = "") -> None:
    """numpy's matmul of two values; a one-dimensional operand gets its missing axis."""
    rows = t.reshaped(a, (1, *t.shape(a))) if t.type(a).rank == 1 else a
    columns = t.reshaped(b, (*t.shape(b), 1)) if t.type(b).rank == 1 else b
    if rows == a and columns == b:
        t.emit(Kind.MATMUL, (a, b), output=output)
        return
    product = t.step(Kind.MATMUL, (rows, columns), matmul_type(t, rows, columns))
    shape = t.shape(output or t.output)
    t.emit(Kind.RESHAPE, (product,), {"shape": shape}, output=output)


def matmul_type(t: Translation, a: str, b: str) -> TensorType:
    """The type of a matrix product of values of two or more axes."""
    left, right = t.shape(a), t.shape(b)
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    return TensorType(t.type(a).dtype, (*batch, left[-2], right[-1]))


def matmul(t: Translation) -> None:
    """MatMul."""
    matmul_of(t, t.operand(0), t.operand(1))


def scaled(t: Translation, value: str, factor: float, role: str) -> str:
    """A value times a number: folded into a constant, or an operator."""
    if factor == 1.0:
        return value
    data = t.data(value)
    dtype = t.type(value).dtype
    if data is not None:
        product = np.asarray(data, np.float64) * factor
        return t.constant(role, product.astype(dtype.numpy))
    return t.step(Kind.MUL, (value, t.scalar(f"{role}.factor", factor, dtype)), t.type(value))


def gemm(t: Translation) -> None:
    """Gemm: transposes and factors go into constants where they can."""
    a, b, bias = t.operand(0), t.operand(1), t.operand(2)
    dtype = t.result.dtype
    alpha, beta = t.node.number("alpha", 1.0), t.node.number("beta", 1.0)
    if not dtype.is_float and (alpha, beta) != (1.0, 1.0):
        raise NotRepresentable("alpha or beta scale integers")
    if t.node.integer("transA", 0):
        a = t.transposed(a, (1, 0))
    if t.node.integer("transB", 0):
        b = t.transposed(b, (1, 0))
    if t.data(b) is not None or t.data(a) is None:
        b = scaled(t, b, alpha, "alpha")
    else:
        a = scaled(t, a, alpha, "alpha")
    if not bias or beta == 0.0:
        t.emit(Kind.MATMUL, (a, b))
    else:
        t.emit(Kind.MATMUL, (a, b, scaled(t, bias, beta, "beta")))


def einsum(t: Translation) -> None:
    """Einsum of one or two operands without repeated indices: reductions, transposes, a matmul."""
    equation = t.node.word("equation", "").replace(" ", "")
    if "..." in equation or t.operand_count > 2 or not t.result.dtype.is_float:
        raise NotRepresentable("its equation isn't one of letters for one or two float operands")
    left, _, result = equation.partition("->")
    terms = left.split(",")
    if "->" not in equation:
        letters = sorted(set(left) - {","})
        result = "".join(letter for letter in letters if left.count(letter) == 1)
    if any(len(set(term)) != len(term) for term in [*terms, result]):
        raise NotRepresentable("its equation repeats a letter within an operand")
    summed = [
        _summed_out(t, t.operand(position), term, result, "".join(terms))
        for position, term in enumerate(terms)
    ]
    if len(summed) == 1:
        value, term = summed[0]
        permutation = tuple(term.index(letter) for letter in result)
        t.alias(t.transposed(value, permutation))
        return
    _contract(t, summed[0], summed[1], result)


def _summed_out(
    t: Translation, value: str, term: str, result: str, everywhere: str
) -> tuple[str, str]:
    """Sum over the indices that neither the result nor another operand has."""
    lone = [letter for letter in term if letter not in result and everywhere.count(letter) == 1]
    if not lone:
        return value, term
    axes = tuple(term.index(letter) for letter in lone)
    source = t.type(value)
    shape = tuple(extent for axis, extent in enumerate(source.shape) if axis not in axes)
    reduced = t.step(
        Kind.REDUCE_SUM,
        (value,),
        TensorType(source.dtype, shape),
        {"axes": axes, "keepdims": 0},
    )
    return reduced, "".join(letter for letter in term if letter not in lone)


def _contract(t: Translation, first: tuple[str, str], second: tuple[str, str], result: str) -> None:
    (a, a_term), (b, b_term) = first, second
    extents = dict(zip(a_term, t.shape(a), strict=True))
    for letter, extent in zip(b_term, t.shape(b), strict=True):
        if extents.setdefault(letter, extent) != extent:
            raise NotRepresentable("its equation broadcasts an axis")
    batch = [letter for letter in result if letter in a_term and letter in b_term]
    rows = [letter for letter in result if letter in a_term and letter not in b_term]
    columns = [letter for letter in result if letter in b_term and letter not in a_term]
    inner = [letter for letter in a_term if letter in b_term and letter not in result]
    sizes = [
        int(np.prod([extents[letter] for letter in letters], dtype=np.int64))
        for letters in (batch, rows, inner, columns)
    ]
    left = _arranged(t, a, a_term, [*batch, *rows, *inner], (sizes[0], sizes[1], sizes[2]))
    right = _arranged(t, b, b_term, [*batch, *inner, *columns], (sizes[0], sizes[2], sizes[3]))
    product = t.step(Kind.MATMUL, (left, right), matmul_type(t, left, right))
    order = [*batch, *rows, *columns]
    spread = t.reshaped(product, tuple(extents[letter] for letter in order))
    t.alias(t.transposed(spread, tuple(order.index(letter) for letter in result)))


def _arranged(t: Translation, value: str, term: str, order: list[str], shape: Shape) -> str:
    permutation = tuple(term.index(letter) for letter in order)
    return t.reshaped(t.transposed(value, permutation), shape)


TABLE: dict[str, Translator] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "MatMul": matmul,
    "Gemm": gemm,
    "Einsum": einsum,
}
