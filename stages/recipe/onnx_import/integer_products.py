"""Integer products that are scaled at once: the form of dynamically quantised models.

`Mul(Cast(MatMulInteger(x, w, x_zero, w_zero)), Mul(x_scale, w_scale))` is the matmul of two
dequantised values. Said so, no sum of products is ever a 32-bit value that a narrow float can't
hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto

from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.contractions import conv_attributes, matmul_of
from stages.recipe.onnx_import.node import Node
from stages.recipe.onnx_import.quantization import real
from stages.recipe.onnx_import.translation import Translation, Translator

_CONTRACTIONS = ("MatMulInteger", "ConvInteger")


@dataclass(frozen=True, slots=True)
class IntegerProduct:
    """A contraction of integers: the node, and its operands (empty where omitted)."""

    node: NodeProto
    x: str
    w: str
    x_zero: str
    w_zero: str


def multiply(t: Translation) -> None:
    """Mul; that of an integer product and its scales becomes a product of real numbers."""
    a, b = t.operands()
    for sums, scale in ((a, b), (b, a)):
        product, scales = _integer_product(t, sums), _two_scales(t, scale)
        if product is not None and scales is not None and _emit(t, product, *scales):
            return
    t.emit(Kind.MUL, (a, b))


def _integer_product(t: Translation, sums: str) -> IntegerProduct | None:
    cast = t.builder.producers.get(sums)
    if cast is None or cast.kind is not Kind.CAST:
        return None
    call = t.builder.producers.get(cast.inputs[0])
    if call is None or call.kind is not Kind.HOST_CALL:
        return None
    node = NodeProto()
    data, names = call.attributes["node"], call.attributes["names"]
    assert isinstance(data, bytes)
    assert isinstance(names, tuple)
    node.ParseFromString(data)
    if node.op_type not in _CONTRACTIONS:
        return None
    values = dict(zip(names, call.inputs, strict=True))
    operands = [values.get(name, "") for name in node.input]
    operands += [""] * (4 - len(operands))
    return IntegerProduct(node, *operands)


def _two_scales(t: Translation, scale: str) -> tuple[str, str] | None:
    """The scales of x and w: one number each, or w's a constant of one number a column."""
    maker: Operator | None = t.builder.producers.get(scale)
    if maker is None or maker.kind is not Kind.MUL:
        return None
    first, second = maker.inputs
    of_x, of_w = (first, second) if t.data(second) is not None else (second, first)
    if t.data(of_w) is None or t.type(of_x).element_count != 1 or t.type(of_x).rank > 1:
        return None
    return of_x, of_w


def _emit(t: Translation, product: IntegerProduct, x_scale: str, w_scale: str) -> bool:
    scales = t.type(w_scale)
    if product.node.op_type == "ConvInteger" and scales.element_count != 1:
        return False
    if scales.rank > 1 or t.type(product.w).rank < 2 or t.data(product.w) is None:
        return False
    w_zero = product.w_zero
    if w_zero and t.shape(w_zero) != scales.shape:
        zeros = t.data(w_zero)
        if zeros is None or zeros.size != 1:
            return False
        same = np.broadcast_to(zeros.reshape(()), scales.shape).copy()
        w_zero = t.constant("zero", same)
    x = real(t, product.x, x_scale, product.x_zero)
    w = real(t, product.w, w_scale, w_zero, t.type(product.w).rank - 1)
    if product.node.op_type == "MatMulInteger":
        matmul_of(t, x, w)
        return True
    window = Translation(t.builder, Node(product.node, t.node.version))
    t.emit(Kind.CONV, (x, w), conv_attributes(window, x, w))
    return True


TABLE: dict[str, Translator] = {"Mul": multiply}
