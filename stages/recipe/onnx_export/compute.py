"""Contractions, normalisation, softmax, pooling and reductions as ONNX nodes."""

from __future__ import annotations

from functools import partial

import numpy as np

from stages.recipe.kinds import Kind
from stages.recipe.onnx_export.emitter import Emitter, Exporter, NodeAttribute
from stages.recipe.window import Window

REDUCTIONS: dict[Kind, str] = {
    Kind.REDUCE_SUM: "ReduceSum",
    Kind.REDUCE_MEAN: "ReduceMean",
    Kind.REDUCE_MAX: "ReduceMax",
    Kind.REDUCE_MIN: "ReduceMin",
    Kind.REDUCE_PROD: "ReduceProd",
    Kind.REDUCE_L1: "ReduceL1",
    Kind.REDUCE_L2: "ReduceL2",
    Kind.REDUCE_SUM_SQUARE: "ReduceSumSquare",
}


def convolution(op_type: str, names: tuple[str, ...], e: Emitter) -> None:
    """conv and conv_transpose."""
    attributes: dict[str, NodeAttribute] = {name: e.operator.integers(name) for name in names}
    attributes["group"] = e.operator.integer("group")
    e.finish(op_type, _without_omitted(e), attributes)


def _without_omitted(e: Emitter) -> list[str]:
    operands = list(e.operands)
    while operands and not operands[-1]:
        operands.pop()
    return operands


def matmul(e: Emitter) -> None:
    """matmul, and its bias as an Add."""
    a, b = e.operands[:2]
    if not e.has(2):
        e.finish("MatMul", (a, b))
        return
    e.finish("Add", (e.node("MatMul", (a, b)), e.operands[2]))


def batch_norm(e: Emitter) -> None:
    """batch_norm."""
    e.finish("BatchNormalization", e.operands, {"epsilon": e.operator.number("epsilon")})


def instance_norm(e: Emitter) -> None:
    """instance_norm."""
    e.finish("InstanceNormalization", e.operands, {"epsilon": e.operator.number("epsilon")})


def layer_norm(e: Emitter) -> None:
    """layer_norm; parameters are expanded to the normalised axes, as ONNX Runtime wants them."""
    axis = e.operator.integer("axis")
    tail = e.shape(0)[axis:]
    operands = [e.operands[0]]
    for position in (1, 2):
        if e.has(position):
            parameter = e.operands[position]
            if e.shape(position) != tail:
                parameter = e.node("Expand", (parameter, e.integers(tail)))
            operands.append(parameter)
    attributes: dict[str, NodeAttribute] = {
        "axis": axis,
        "epsilon": e.operator.number("epsilon"),
    }
    e.finish("LayerNormalization", operands, attributes)


def softmax(op_type: str, e: Emitter) -> None:
    """softmax and log_softmax."""
    attributes: dict[str, NodeAttribute] = {"axis": e.operator.integer("axis")}
    if e.operator.attributes.get("undefined") != "zero":
        e.finish(op_type, e.operands, attributes)
        return
    rows = e.node(op_type, e.operands, attributes)
    e.finish("Where", (e.node("IsNaN", (rows,)), e.scalar(0.0), rows))


def softmax_numerator(e: Emitter) -> None:
    """softmax_numerator: ONNX has no one operator for it."""
    (x,) = e.operands
    attributes: dict[str, NodeAttribute] = {"axes": [e.operator.integer("axis")], "keepdims": 1}
    e.finish("Exp", (e.node("Sub", (x, e.node("ReduceMax", (x,), attributes))),))


def max_pool(e: Emitter) -> None:
    """max_pool. ONNX Runtime refuses pads as large as the kernel: those become a Pad."""
    window = Window.of(e.operator, e.operator.integers("kernel"))
    x, pads = e.operands[0], e.operator.integers("pads")
    if not _pads_are_legal(window):
        dtype = e.result.dtype
        least = -np.inf if dtype.is_float else float(np.iinfo(str(dtype.numpy)).min)
        x, pads = _padded(e, x, window, least), (0,) * len(pads)
    e.finish(
        "MaxPool",
        (x,),
        {
            "kernel_shape": window.kernel,
            "strides": window.strides,
            "pads": pads,
            "dilations": window.dilations,
        },
    )


def _pads_are_legal(window: Window) -> bool:
    sides = (window.begins, window.ends)
    return all(
        0 <= pad < extent for pads in sides for pad, extent in zip(pads, window.kernel, strict=True)
    )


def _padded(e: Emitter, x: str, window: Window, value: float) -> str:
    pads = (0, 0, *window.begins, 0, 0, *window.ends)
    return e.node("Pad", (x, e.integers(pads), e.scalar(value)), {"mode": "constant"})


def average_pool(e: Emitter) -> None:
    """average_pool; what opset 17 has no attribute for is a convolution over counts."""
    window = Window.of(e.operator, e.operator.integers("kernel"))
    overhang = e.operator.attributes.get("overhang", ())
    include = e.operator.integer("count_include_pad")
    assert isinstance(overhang, tuple)
    plain = _pads_are_legal(window) and all(step == 1 for step in window.dilations)
    if plain and not (include and any(overhang)):
        e.finish(
            "AveragePool",
            (e.operands[0],),
            {
                "kernel_shape": window.kernel,
                "strides": window.strides,
                "pads": e.operator.integers("pads"),
                "count_include_pad": include,
            },
        )
        return
    _average_by_counts(e, window, tuple(int(extent) for extent in overhang))


def _average_by_counts(e: Emitter, window: Window, overhang: tuple[int, ...]) -> None:
    """Sums of windows over a zero-padded operand, divided by how many elements each counts."""
    channels, *spatial = e.shape(0)[1:]
    overhang = overhang or (0,) * len(spatial)
    ones = np.ones((channels, 1, *window.kernel), e.compute.numpy)
    attributes: dict[str, NodeAttribute] = {
        "group": channels,
        "strides": window.strides,
        "dilations": window.dilations,
    }
    padded = _padded(e, e.operands[0], window, 0.0)
    total = e.node("Conv", (padded, e.constant(ones)), attributes)
    counts = np.ones((1,) * len(spatial))
    include = e.operator.integer("count_include_pad")
    for axis, extent in enumerate(e.result.shape[2:]):
        begin, end = window.begins[axis], window.ends[axis]
        low = -begin if include else 0
        high = spatial[axis] + (end - overhang[axis] if include else 0)
        starts = np.arange(extent)[:, None] * window.strides[axis] - begin
        places = starts + np.arange(window.kernel[axis]) * window.dilations[axis]
        along = ((places >= low) & (places < high)).sum(axis=1)
        counts = counts * along.reshape(-1, *(1,) * (len(spatial) - axis - 1))
    e.finish("Div", (total, e.constant(counts.astype(e.compute.numpy))))


def reduction(op_type: str, e: Emitter) -> None:
    """Reductions: before opset 18 only ReduceSum takes its axes as an operand."""
    axes, keep = e.operator.integers("axes"), e.operator.integer("keepdims")
    if not axes:
        _reduce_nothing(e)
    elif op_type == "ReduceSum" or e.opset >= 18:
        e.finish(op_type, (e.operands[0], e.integers(axes)), {"keepdims": keep})
    else:
        e.finish(op_type, e.operands, {"axes": axes, "keepdims": keep})


def _reduce_nothing(e: Emitter) -> None:
    """No axes: each element is reduced by itself."""
    x = e.operands[0]
    if e.operator.kind in (Kind.REDUCE_L1, Kind.REDUCE_L2):
        e.finish("Abs", (x,))
    elif e.operator.kind is Kind.REDUCE_SUM_SQUARE:
        e.finish("Mul", (x, x))
    else:
        e.finish("Identity", (x,))


_CONV = ("strides", "pads", "dilations")

TABLE: dict[Kind, Exporter] = {
    Kind.CONV: partial(convolution, "Conv", _CONV),
    Kind.CONV_TRANSPOSE: partial(convolution, "ConvTranspose", (*_CONV, "output_padding")),
    Kind.MATMUL: matmul,
    Kind.BATCH_NORM: batch_norm,
    Kind.LAYER_NORM: layer_norm,
    Kind.INSTANCE_NORM: instance_norm,
    Kind.SOFTMAX: partial(softmax, "Softmax"),
    Kind.LOG_SOFTMAX: partial(softmax, "LogSoftmax"),
    Kind.SOFTMAX_NUMERATOR: softmax_numerator,
    Kind.MAX_POOL: max_pool,
    Kind.AVERAGE_POOL: average_pool,
    **{kind: partial(reduction, op_type) for kind, op_type in REDUCTIONS.items()},
}
