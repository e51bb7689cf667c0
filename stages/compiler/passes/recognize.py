"""Operators that arrive decomposed become one: GELU, SiLU, hard-swish, softmax, LayerNorm."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.patterns import Any, Match, Node, match, node, scalar
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.tensors import Array, Shape

_X = Any("x")
_Builder = Callable[[Match, Operator, GraphEditor], Operator | None]


@dataclass(frozen=True, slots=True)
class Recognize:
    """Replaces each known decomposition by the operator it means."""

    name: str = "recognize"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Try every pattern at every operator, larger patterns first."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            for pattern, build in _PATTERNS:
                current = editor.operators.get(operator.name)
                if current is None or current.kind is not pattern.kind:
                    continue
                found = match(pattern, current, editor)
                built = build(found, current, editor) if found else None
                if built is not None:
                    editor.put(built)
        return editor.finish()


def _unary(kind: Kind, attributes: dict[str, Attribute]) -> _Builder:
    def build(found: Match, root: Operator, editor: GraphEditor) -> Operator | None:
        x = found.values["x"]
        if editor.types[x].shape != editor.types[root.outputs[0]].shape:
            return None
        return Operator(root.name, kind, (x,), root.outputs, attributes)

    return build


def _hard_swish(found: Match, root: Operator, editor: GraphEditor) -> Operator | None:
    inner = found.operators["gate"]
    alpha, beta = inner.number("alpha"), inner.number("beta")
    if not math.isclose(alpha, 1 / 6, rel_tol=1e-3) or not math.isclose(beta, 0.5, rel_tol=1e-3):
        return None
    return _unary(Kind.HARD_SWISH, {})(found, root, editor)


def _clipped(kind: Kind) -> _Builder:
    """`clip(x + 3, 0, 6) / 6`, alone or times x."""

    def build(found: Match, root: Operator, editor: GraphEditor) -> Operator | None:
        clip = found.operators["clip"]
        if clip.number("min") != 0 or clip.number("max") != 6:
            return None
        attributes: dict[str, Attribute] = {}
        if kind is Kind.HARD_SIGMOID:
            attributes = {"alpha": 1 / 6, "beta": 0.5}
        return _unary(kind, attributes)(found, root, editor)

    return build


def _softmax(found: Match, root: Operator, editor: GraphEditor) -> Operator | None:
    shape = editor.types[root.outputs[0]].shape
    axes = {found.operators[label].integers("axes") for label in ("sum", "max")}
    if len(axes) != 1:
        return None
    (axis,) = axes
    keep = all(found.operators[label].integer("keepdims") for label in ("sum", "max"))
    if len(axis) != 1 or not keep or editor.types[found.values["x"]].shape != shape:
        return None
    return Operator(root.name, Kind.SOFTMAX, (found.values["x"],), root.outputs, {"axis": axis[0]})


def _guarded_softmax(found: Match, root: Operator, editor: GraphEditor) -> Operator | None:
    """`where(is_nan(softmax(x)), 0, softmax(x))`: rows that a mask leaves nothing of are zeros."""
    inner = found.operators["softmax"]
    if editor.types[inner.outputs[0]].shape != editor.types[root.outputs[0]].shape:
        return None
    attributes: dict[str, Attribute] = {**inner.attributes, "undefined": "zero"}
    return Operator(root.name, Kind.SOFTMAX, inner.inputs, root.outputs, attributes)


def _layer_norm(found: Match, root: Operator, editor: GraphEditor) -> Operator | None:
    x = found.values["x"]
    shape = editor.types[x].shape
    axes = {found.operators[label].integers("axes") for label in ("mean", "variance")}
    epsilon = scalar(editor, found.values["epsilon"])
    if len(axes) != 1 or epsilon is None or shape != editor.types[root.outputs[0]].shape:
        return None
    (over,) = axes
    axis = len(shape) - len(over)
    keep = all(found.operators[label].integer("keepdims") for label in ("mean", "variance"))
    if over != tuple(range(axis, len(shape))) or not keep:
        return None
    data = [_over_last(found.values[label], shape, axis, editor) for label in ("scale", "bias")]
    if data[0] is None or data[1] is None:
        return None
    scale = editor.add_constant(f"{root.name}.scale", data[0])
    bias = editor.add_constant(f"{root.name}.bias", data[1])
    attributes: dict[str, Attribute] = {"axis": axis, "epsilon": epsilon}
    return Operator(root.name, Kind.LAYER_NORM, (x, scale, bias), root.outputs, attributes)


def _over_last(value: str, shape: Shape, axis: int, editor: GraphEditor) -> Array | None:
    """A constant of the extents from `axis` on, the same everywhere else; None for other values."""
    data = editor.constants.get(value)
    if data is None or data.ndim > len(shape):
        return None
    padded = data.reshape((1,) * (len(shape) - data.ndim) + data.shape)
    if any(extent != 1 for extent in padded.shape[:axis]):
        return None
    last = padded.reshape(padded.shape[axis:])
    return np.array(np.broadcast_to(last, shape[axis:]), order="C")


def _layer_norm_pattern(square: Callable[[Node], Node], divide: Callable[[Node], Node]) -> Node:
    centred = node(Kind.SUB, _X, node(Kind.REDUCE_MEAN, _X, label="mean"))
    variance = node(Kind.REDUCE_MEAN, square(centred), label="variance")
    deviation = node(Kind.SQRT, node(Kind.ADD, variance, Any("epsilon")))
    normal = divide(deviation)
    return node(Kind.ADD, node(Kind.MUL, normal, Any("scale")), Any("bias"))


def _layer_norms() -> list[tuple[Node, _Builder]]:
    centred = node(Kind.SUB, _X, node(Kind.REDUCE_MEAN, _X, label="mean"))
    squares: list[Callable[[Node], Node]] = [
        lambda value: node(Kind.POW, value, 2.0),
        lambda value: node(Kind.MUL, value, value),
    ]
    divisions: list[Callable[[Node], Node]] = [
        lambda deviation: node(Kind.DIV, centred, deviation),
        lambda deviation: node(Kind.MUL, centred, node(Kind.RECIPROCAL, deviation)),
    ]
    return [
        (_layer_norm_pattern(square, divide), _layer_norm)
        for square in squares
        for divide in divisions
    ]


def _gelu_erf() -> list[Node]:
    """`x/2 * (1 + erf(x / sqrt 2))` in the orders that exporters write."""
    scaled = [node(Kind.DIV, _X, math.sqrt(2)), node(Kind.MUL, _X, math.sqrt(0.5))]
    gates = [node(Kind.ADD, node(Kind.ERF, inner), 1.0) for inner in scaled]
    return [shape for gate in gates for shape in _halved_products(gate)]


def _gelu_tanh() -> list[Node]:
    """`x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`."""
    square = node(Kind.MUL, _X, _X)
    cubes = [node(Kind.POW, _X, 3.0), node(Kind.MUL, square, _X)]
    inners = [node(Kind.ADD, _X, node(Kind.MUL, cube, 0.044715)) for cube in cubes]
    gates = [
        node(Kind.ADD, node(Kind.TANH, node(Kind.MUL, inner, math.sqrt(2 / math.pi))), 1.0)
        for inner in inners
    ]
    return [shape for gate in gates for shape in _halved_products(gate)]


def _halved_products(gate: Node) -> list[Node]:
    return [
        node(Kind.MUL, node(Kind.MUL, _X, gate), 0.5),
        node(Kind.MUL, node(Kind.MUL, _X, 0.5), gate),
        node(Kind.MUL, _X, node(Kind.MUL, gate, 0.5)),
        node(Kind.DIV, node(Kind.MUL, _X, gate), 2.0),
    ]


def _clip_patterns() -> list[tuple[Node, _Builder]]:
    clip = node(Kind.CLIP, node(Kind.ADD, _X, 3.0), label="clip")
    sixths = [node(Kind.DIV, clip, 6.0), node(Kind.MUL, clip, 1 / 6)]
    swishes = [node(Kind.MUL, _X, sixth) for sixth in sixths]
    swishes += [
        node(Kind.DIV, node(Kind.MUL, _X, clip), 6.0),
        node(Kind.MUL, node(Kind.MUL, _X, clip), 1 / 6),
    ]
    return [
        *((pattern, _clipped(Kind.HARD_SWISH)) for pattern in swishes),
        *((pattern, _clipped(Kind.HARD_SIGMOID)) for pattern in sixths),
    ]


def _softmax_pattern() -> Node:
    shifted = node(Kind.SUB, _X, node(Kind.REDUCE_MAX, _X, label="max"))
    exponent = node(Kind.EXP, shifted)
    return node(Kind.DIV, exponent, node(Kind.REDUCE_SUM, exponent, label="sum"))


def _guarded_softmax_pattern() -> Node:
    rows = node(Kind.SOFTMAX, _X, label="softmax")
    return node(Kind.WHERE, node(Kind.IS_NAN, rows), 0.0, rows)


_PATTERNS: list[tuple[Node, _Builder]] = [
    *_layer_norms(),
    (_softmax_pattern(), _softmax),
    (_guarded_softmax_pattern(), _guarded_softmax),
    *((pattern, _unary(Kind.GELU, {"approximate": "none"})) for pattern in _gelu_erf()),
    *((pattern, _unary(Kind.GELU, {"approximate": "tanh"})) for pattern in _gelu_tanh()),
    (node(Kind.MUL, _X, node(Kind.SIGMOID, _X)), _unary(Kind.SILU, {})),
    (node(Kind.MUL, _X, node(Kind.HARD_SIGMOID, _X, label="gate")), _hard_swish),
    *_clip_patterns(),
]
