"""Elementwise kinds and activations as ONNX nodes."""

from __future__ import annotations

from functools import partial
from math import inf, pi, sqrt

import numpy as np

from stages.recipe.kinds import Kind
from stages.recipe.onnx_export.emitter import Emitter, Exporter

PLAIN: dict[Kind, str] = {
    Kind.ADD: "Add",
    Kind.SUB: "Sub",
    Kind.MUL: "Mul",
    Kind.DIV: "Div",
    Kind.POW: "Pow",
    Kind.MINIMUM: "Min",
    Kind.MAXIMUM: "Max",
    Kind.EQUAL: "Equal",
    Kind.LESS: "Less",
    Kind.LESS_OR_EQUAL: "LessOrEqual",
    Kind.GREATER: "Greater",
    Kind.GREATER_OR_EQUAL: "GreaterOrEqual",
    Kind.AND: "And",
    Kind.OR: "Or",
    Kind.XOR: "Xor",
    Kind.WHERE: "Where",
    Kind.NEG: "Neg",
    Kind.ABS: "Abs",
    Kind.EXP: "Exp",
    Kind.LOG: "Log",
    Kind.SQRT: "Sqrt",
    Kind.RECIPROCAL: "Reciprocal",
    Kind.ERF: "Erf",
    Kind.SIN: "Sin",
    Kind.COS: "Cos",
    Kind.FLOOR: "Floor",
    Kind.CEIL: "Ceil",
    Kind.ROUND: "Round",
    Kind.SIGN: "Sign",
    Kind.NOT: "Not",
    Kind.IS_NAN: "IsNaN",
    Kind.TANH: "Tanh",
    Kind.SIGMOID: "Sigmoid",
    Kind.HARD_SWISH: "HardSwish",
    Kind.SOFTPLUS: "Softplus",
    Kind.SOFTSIGN: "Softsign",
}
"""Kinds that one ONNX operator without attributes means."""

NUMBERED: dict[Kind, tuple[str, tuple[str, ...]]] = {
    Kind.LEAKY_RELU: ("LeakyRelu", ("alpha",)),
    Kind.HARD_SIGMOID: ("HardSigmoid", ("alpha", "beta")),
    Kind.ELU: ("Elu", ("alpha",)),
    Kind.SELU: ("Selu", ("alpha", "gamma")),
}
"""Kinds whose attributes are numbers of the same name in ONNX."""


def plain(op_type: str, e: Emitter) -> None:
    """One node without attributes."""
    e.finish(op_type, e.operands)


def numbered(op_type: str, names: tuple[str, ...], e: Emitter) -> None:
    """One node whose attributes are numbers."""
    e.finish(op_type, e.operands, {name: e.operator.number(name) for name in names})


def modulo(e: Emitter) -> None:
    """mod; ONNX's Mod of floats has the sign of the dividend only."""
    fmod = e.operator.integer("fmod")
    if fmod or not e.compute.is_float:
        e.finish("Mod", e.operands, {"fmod": fmod})
        return
    x, y = e.operands
    turns = e.node("Floor", (e.node("Div", (x, y)),))
    e.finish("Sub", (x, e.node("Mul", (turns, y))))


def prelu(e: Emitter) -> None:
    """prelu with a slope that broadcasts either way."""
    x, slope = e.operands
    below = e.node("Less", (x, e.scalar(0)))
    e.finish("Where", (below, e.node("Mul", (x, slope)), x))


def relu(e: Emitter) -> None:
    """relu, of integers too."""
    if e.compute.is_float:
        e.finish("Relu", e.operands)
    else:
        e.finish("Max", (e.operands[0], e.scalar(0)))


def clip(e: Emitter) -> None:
    """clip: infinite bounds are left out."""
    low, high = e.operator.number("min"), e.operator.number("max")
    bounds = [_bound(e, low), _bound(e, high)]
    if not any(bounds):
        e.finish("Identity", e.operands)
        return
    e.finish("Clip", [*e.operands, *(bounds if bounds[1] else bounds[:1])])


def _bound(e: Emitter, value: float) -> str:
    if value in (inf, -inf) and not e.compute.is_float:
        return ""
    if not e.compute.is_float:
        limits = np.iinfo(str(e.compute.numpy))
        value = min(max(value, limits.min), limits.max)
    return "" if value in (inf, -inf) else e.scalar(value)


def silu(e: Emitter) -> None:
    """silu: x * sigmoid(x)."""
    x = e.operands[0]
    e.finish("Mul", (x, e.node("Sigmoid", (x,))))


def mish(e: Emitter) -> None:
    """mish: x * tanh(softplus(x))."""
    x = e.operands[0]
    e.finish("Mul", (x, e.node("Tanh", (e.node("Softplus", (x,)),))))


def gelu(e: Emitter) -> None:
    """gelu: x / 2 * (1 + erf(x / sqrt 2)), or its approximation by tanh (Hendrycks, Gimpel)."""
    x = e.operands[0]
    if e.operator.word("approximate") == "none":
        bent = e.node(
            "Erf",
            (
                e.node(
                    "Div",
                    (x, e.scalar(sqrt(2))),
                ),
            ),
        )
    else:
        cube = e.node("Mul", (e.node("Mul", (x, x)), x))
        inner = e.node("Add", (x, e.node("Mul", (cube, e.scalar(0.044715)))))
        bent = e.node("Tanh", (e.node("Mul", (inner, e.scalar(sqrt(2 / pi)))),))
    half = e.node("Mul", (x, e.scalar(0.5)))
    e.finish("Mul", (half, e.node("Add", (bent, e.scalar(1.0)))))


TABLE: dict[Kind, Exporter] = {
    **{kind: partial(plain, op_type) for kind, op_type in PLAIN.items()},
    **{kind: partial(numbered, *row) for kind, row in NUMBERED.items()},
    Kind.MOD: modulo,
    Kind.PRELU: prelu,
    Kind.RELU: relu,
    Kind.CLIP: clip,
    Kind.SILU: silu,
    Kind.MISH: mish,
    Kind.GELU: gelu,
}
