"""Pools; global ones are reductions over the spatial axes."""

from __future__ import annotations

from functools import partial

from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.translation import (
    Attributes,
    NotRepresentable,
    Translation,
    Translator,
)
from stages.recipe.onnx_import.windows import Window, overhang, read_window
from stages.tensors import Shape


def _window(t: Translation) -> Window:
    kernel = t.node.integers("kernel_shape")
    spatial = t.shape(t.operand(0))[2:]
    if kernel is None or not 1 <= len(spatial) <= 3:
        raise NotRepresentable(f"it has {len(spatial)} spatial axes")
    return read_window(t.node, kernel, spatial)


def _ends_extended(pads: Shape, extra: Shape) -> Shape:
    rank = len(extra)
    ends = (pad + more for pad, more in zip(pads[rank:], extra, strict=True))
    return (*pads[:rank], *ends)


def max_pool(t: Translation) -> None:
    """MaxPool without indices. Padding is minus infinity, so `ceil_mode` is more of it."""
    if t.has_output(1):
        raise NotRepresentable("its indices are read")
    x = t.operand(0)
    window = _window(t)
    extra = overhang(window, t.shape(x)[2:], t.result.shape[2:])
    attributes: Attributes = {
        "kernel": window.kernel,
        "strides": window.strides,
        "pads": _ends_extended(window.pads, extra),
        "dilations": window.dilations,
    }
    t.emit(Kind.MAX_POOL, (x,), attributes)


def average_pool(t: Translation) -> None:
    """AveragePool."""
    t.emit(Kind.AVERAGE_POOL, (t.operand(0),), average_attributes(t))


def average_attributes(t: Translation) -> dict[str, int | Shape]:
    """The attributes of an average; what `ceil_mode` adds beyond the padding never counts."""
    x = t.operand(0)
    window = _window(t)
    extra = overhang(window, t.shape(x)[2:], t.result.shape[2:])
    attributes: dict[str, int | Shape] = {
        "kernel": window.kernel,
        "strides": window.strides,
        "pads": _ends_extended(window.pads, extra),
        "count_include_pad": t.node.integer("count_include_pad", 0),
    }
    if any(step != 1 for step in window.dilations):
        attributes["dilations"] = window.dilations
    if any(extra):
        attributes["overhang"] = extra
    return attributes


def global_pool(kind: Kind, t: Translation) -> None:
    """A global pool: a reduction over the spatial axes that keeps them."""
    x = t.operand(0)
    axes = tuple(range(2, t.type(x).rank))
    t.emit(kind, (x,), {"axes": axes, "keepdims": 1})


def global_lp_pool(t: Translation) -> None:
    """GlobalLpPool with p of 1 or 2."""
    kinds = {1: Kind.REDUCE_L1, 2: Kind.REDUCE_L2}
    order = t.node.integer("p", 2)
    if order not in kinds:
        raise NotRepresentable(f"its norm is of order {order}")
    global_pool(kinds[order], t)


TABLE: dict[str, Translator] = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": partial(global_pool, Kind.REDUCE_MEAN),
    "GlobalMaxPool": partial(global_pool, Kind.REDUCE_MAX),
    "GlobalLpPool": global_lp_pool,
}
