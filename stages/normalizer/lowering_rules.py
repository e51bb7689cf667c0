"""What changed between operator set 17 and the newest, undone: one function an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from stages.errors import InputError
from stages.normalizer.operators import place
from stages.normalizer.raising import RECIPE_OPSET

Rule = Callable[[ir.Node], None]
_CONTRIB = "com.microsoft"
_SIXTEEN_BITS = frozenset({ir.DataType.INT16, ir.DataType.UINT16})


def no_form(node: ir.Node, what: str) -> InputError:
    """The refusal of something that operator set 17 can't say."""
    return InputError(
        f"{what} has no form in operator set {RECIPE_OPSET}",
        where=place(node),
        hint=f"export the model for operator set {RECIPE_OPSET}",
    )


def _reduce(node: ir.Node) -> None:
    """Axes move from an input to an attribute (set 18 did the reverse)."""
    keep_all = node.attributes.get_int("noop_with_empty_axes", 0) != 0
    node.attributes.pop("noop_with_empty_axes", None)
    axes = _constant_input(node, 1)
    _keep_inputs(node, 1)
    if axes is not None and axes.size:
        node.attributes["axes"] = ir.AttrInt64s("axes", [int(axis) for axis in axes])
    elif keep_all:
        kind = node.op_type
        node.op_type = _REDUCED_OVER_NOTHING[kind]
        node.attributes.clear()
        if kind == "ReduceSumSquare":
            node.resize_inputs(2)
            node.replace_input_with(1, node.inputs[0])


def _split(node: ir.Node) -> None:
    """Equal parts need no count; a shorter last part needs its sizes written out."""
    count = node.attributes.get_int("num_outputs", 0)
    node.attributes.pop("num_outputs", None)
    if not count:
        return
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    axis = node.attributes.get_int("axis", 0)
    extent = shape[axis] if shape is not None else None
    if not isinstance(extent, int):
        raise no_form(node, "Split into a number of parts along a dynamic axis")
    if extent % count:
        part = -(-extent // count)
        sizes = [part] * (count - 1) + [extent - part * (count - 1)]
        node.resize_inputs(2)
        _set_constant(node, 1, np.array(sizes, np.int64), "split")


def _pad(node: ir.Node) -> None:
    """Pads of chosen axes become pads of all."""
    if node.attributes.get_string("mode", "constant") == "wrap":
        raise no_form(node, "mode 'wrap' of Pad")
    axes = _constant_input(node, 3)
    if axes is None:
        return
    pads, rank = _constant_input(node, 1), _rank(node)
    assert pads is not None
    full = np.zeros((2, rank), np.int64)
    full[:, [int(axis) % rank for axis in axes]] = pads.reshape(2, -1)
    _set_constant(node, 1, full.reshape(-1), "pads")
    _keep_inputs(node, 3)


def _resize(node: ir.Node) -> None:
    """Sizes or scales of chosen axes become those of all."""
    symmetric = "half_pixel_symmetric"
    if node.attributes.get_string("coordinate_transformation_mode", "half_pixel") == symmetric:
        if _constant_input(node, 3) is None:
            raise no_form(node, f"{symmetric} of Resize with scales")
        node.attributes["coordinate_transformation_mode"] = ir.AttrString(
            "coordinate_transformation_mode", "half_pixel"
        )
    axes = node.attributes.get_ints("axes", None)
    _keep_aspect_ratio(node, axes)
    node.attributes.pop("axes", None)
    if axes is None:
        return
    rank = _rank(node)
    chosen = [axis % rank for axis in axes]
    for slot, name in ((2, "scales"), (3, "sizes")):
        values = _constant_input(node, slot)
        if values is None or not values.size:
            continue
        full = np.ones(rank, np.float32) if slot == 2 else _extents(node)
        full[chosen] = values
        _set_constant(node, slot, full, name)
    if (roi := _constant_input(node, 1)) is not None and roi.size:
        full_roi = np.concatenate([np.zeros(rank, roi.dtype), np.ones(rank, roi.dtype)])
        full_roi[[*chosen, *(axis + rank for axis in chosen)]] = roi
        _set_constant(node, 1, full_roi, "roi")


def _keep_aspect_ratio(node: ir.Node, axes: Sequence[int] | None) -> None:
    """One scale for all axes, told by sizes that act as a bound, becomes that scale.

    onnx, Resize-18: `scale = min(sizes / extents)` (not_larger) or `max` (not_smaller), and the
    result is `round(scale * extent)` long; given as `scales`, it is `floor(scale * extent)`.
    """
    policy = node.attributes.get_string("keep_aspect_ratio_policy", "stretch")
    node.attributes.pop("keep_aspect_ratio_policy", None)
    sizes = _constant_input(node, 3)
    if policy == "stretch" or sizes is None:
        return
    extents = _extents(node)
    chosen = [axis % len(extents) for axis in (range(len(extents)) if axes is None else axes)]
    ratios = sizes / extents[chosen]
    scale = np.float32(ratios.min() if policy == "not_larger" else ratios.max())
    wanted = np.floor(scale * extents[chosen] + np.float32(0.5))
    if not np.array_equal(np.floor(scale * extents[chosen].astype(np.float32)), wanted):
        raise no_form(node, f"keep_aspect_ratio_policy={policy} of Resize with rounded sizes")
    _set_constant(node, 2, np.full(len(chosen), scale, np.float32), "scales")
    node.replace_input_with(3, None)


def _grid_sample(node: ir.Node) -> None:
    """Set 20 renamed the modes and took up volumes."""
    old = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}
    if _rank(node) != 4:
        raise no_form(node, "GridSample of volumes")
    mode = node.attributes.get_string("mode", "linear")
    node.attributes["mode"] = ir.AttrString("mode", old.get(mode, mode))


def _dft(node: ir.Node) -> None:
    """The axis moves from an input to an attribute (set 20 did the reverse)."""
    if "axis" in node.attributes:
        return
    axis = _constant_input(node, 2)
    rank = _rank(node)
    node.attributes["axis"] = ir.AttrInt64("axis", (-2 if axis is None else int(axis)) % rank)
    _keep_inputs(node, 2)


def _quantize(node: ir.Node) -> None:
    """The output type moves from an attribute to the type of a zero point."""
    kind = node.attributes.get_int("output_dtype", 0)
    node.attributes.pop("output_dtype", None)
    if kind and len(node.inputs) < 3:
        scale = node.inputs[1]
        shape = scale.shape.numpy() if scale is not None and scale.shape is not None else ()
        node.resize_inputs(3)
        _set_constant(node, 2, np.zeros(shape, ir.DataType(kind).numpy()), "zero_point")
    zero_point = node.inputs[2] if len(node.inputs) > 2 else None
    _use_contrib_for_16_bits(node, zero_point)
    if _dtype(node, 1) is ir.DataType.FLOAT16:
        _cast_input(node, 0, ir.DataType.FLOAT)
        _cast_input(node, 1, ir.DataType.FLOAT)


def _dequantize(node: ir.Node) -> None:
    """The output type is the scale's, said or not; set 17 knows float32 scales only."""
    kind = node.attributes.get_int("output_dtype", 0)
    node.attributes.pop("output_dtype", None)
    scale_type = _dtype(node, 1)
    if kind and scale_type is not None and scale_type != kind:
        raise no_form(node, f"output_dtype={ir.DataType(kind).name} of DequantizeLinear")
    _use_contrib_for_16_bits(node, node.inputs[0])
    if scale_type is ir.DataType.FLOAT16:
        _cast_input(node, 1, ir.DataType.FLOAT)
        _cast_output(node, ir.DataType.FLOAT16)


def _use_contrib_for_16_bits(node: ir.Node, quantized: ir.Value | None) -> None:
    """Set 21 took up 16-bit quantisation; before, ONNX Runtime's own domain had it."""
    if quantized is None or quantized.dtype not in _SIXTEEN_BITS:
        return
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    node.domain = _CONTRIB
    graph.opset_imports.setdefault(_CONTRIB, 1)


def _scatter(node: ir.Node) -> None:
    reduction = node.attributes.get_string("reduction", "none")
    if reduction not in ("none", "add", "mul"):
        raise no_form(node, f"reduction={reduction} of {node.op_type}")


def _cast(node: ir.Node) -> None:
    """Saturation and rounding modes speak of 8-bit floats only, which are refused elsewhere."""
    node.attributes.pop("saturate", None)
    node.attributes.pop("round_mode", None)


def _rank(node: ir.Node) -> int:
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    if shape is None:
        raise no_form(node, f"{node.op_type} of a tensor of unknown rank")
    return len(shape)


def _extents(node: ir.Node) -> NDArray[np.int64]:
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    if shape is None or not shape.is_static():
        raise no_form(node, f"sizes of some axes of {node.op_type}, the others dynamic,")
    return np.array(shape.numpy(), np.int64)


def _constant_input(node: ir.Node, slot: int) -> NDArray[Any] | None:
    """The constant fed into a slot; None if the slot is empty.

    Raises:
        InputError: what is fed isn't constant.
    """
    value = node.inputs[slot] if slot < len(node.inputs) else None
    if value is None:
        return None
    if value.const_value is None:
        raise no_form(node, f"{node.op_type} whose input {slot} is computed")
    return value.const_value.numpy()


def _set_constant(node: ir.Node, slot: int, array: NDArray[Any], suffix: str) -> None:
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    made = next(value.name for value in node.outputs if value.name)
    name, serial = f"{made}/{suffix}", 2
    while name in graph.initializers:
        name, serial = f"{made}/{suffix}_{serial}", serial + 1
    value = ir.Value(
        name=name,
        type=ir.TensorType(ir.DataType.from_numpy(array.dtype)),
        shape=ir.Shape(list(array.shape)),
        const_value=ir.tensor(array, name=name),
    )
    graph.register_initializer(value)
    node.replace_input_with(slot, value)


def _dtype(node: ir.Node, slot: int) -> ir.DataType | None:
    value = node.inputs[slot]
    return None if value is None else value.dtype


def _cast_input(node: ir.Node, slot: int, dtype: ir.DataType) -> None:
    value = node.inputs[slot]
    assert value is not None
    cast = ir.node("Cast", [value], {"to": int(dtype)})
    (made,) = cast.outputs
    made.name = f"{node.outputs[0].name}/operand{slot}"
    made.type, made.shape = ir.TensorType(dtype), value.shape
    assert node.graph is not None
    node.graph.insert_before(node, cast)
    node.replace_input_with(slot, made)


def _cast_output(node: ir.Node, dtype: ir.DataType) -> None:
    old = node.outputs[0]
    cast = ir.node("Cast", [old], {"to": int(dtype)})
    (made,) = cast.outputs
    made.type, made.shape = ir.TensorType(dtype), old.shape
    old.type = ir.TensorType(ir.DataType.FLOAT)
    name = old.name
    ir.convenience.replace_all_uses_with(old, made, replace_graph_outputs=True)
    cast.replace_input_with(0, old)
    old.name, made.name = f"{name}/wide", name
    assert node.graph is not None
    node.graph.insert_after(node, cast)


def _keep_inputs(node: ir.Node, count: int) -> None:
    if len(node.inputs) > count:
        node.resize_inputs(count)


_REDUCED_OVER_NOTHING = {
    "ReduceL1": "Abs", "ReduceL2": "Abs", "ReduceLogSum": "Log", "ReduceLogSumExp": "Identity",
    "ReduceMax": "Identity", "ReduceMean": "Identity", "ReduceMin": "Identity",
    "ReduceProd": "Identity", "ReduceSumSquare": "Mul",
}  # fmt: skip
"""What `noop_with_empty_axes` leaves of a reduction: what it does to a single element."""
RULES: dict[str, Rule] = {
    **dict.fromkeys(_REDUCED_OVER_NOTHING, _reduce),
    "Split": _split, "Pad": _pad, "Resize": _resize, "GridSample": _grid_sample, "DFT": _dft,
    "QuantizeLinear": _quantize, "DequantizeLinear": _dequantize, "Cast": _cast,
    "CastLike": _cast, "ScatterElements": _scatter, "ScatterND": _scatter,
}  # fmt: skip
