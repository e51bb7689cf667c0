"""Newer operator sets are lowered to the recipe's.

onnx's version converter has no downward rule for Pad or Resize and leaves attributes behind that
operator set 17 hasn't (Split's `num_outputs`), so the differences between operator sets 17 and
28, read from onnx's own schemas, are undone here: one function an operator. Operators that came
later are replaced by the body that their schema gives.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
from onnx import inliner

from stages.errors import InputError
from stages.normalizer.operators import ONNX_DOMAIN, place
from stages.normalizer.raising import RECIPE_OPSET
from stages.normalizer.skeleton import through_proto

Rule = Callable[[ir.Node], None]


def expand_newer_functions(model: ir.Model) -> tuple[ir.Model, str]:
    """Operators newer than set 17 whose schema gives them a body (Gelu, Attention) become it."""
    newer = sorted(
        {
            node.op_type
            for node in ir.traversal.RecursiveGraphIterator(model.graph)
            if node.domain == ONNX_DOMAIN
            and not onnx.defs.has(node.op_type, RECIPE_OPSET)
            and _has_body(node.op_type, model.opset_imports[ONNX_DOMAIN])
        }
    )
    if not newer:
        return model, ""

    def expand(proto: onnx.ModelProto) -> onnx.ModelProto:
        ids = [(ONNX_DOMAIN, name) for name in newer]
        return inliner.inline_selected_functions(proto, ids, inline_schema_functions=True)

    return through_proto(model, expand), ", ".join(newer)


def lower_opset(model: ir.Model) -> str:
    """Makes every operator one of set 17, in place; constants must have been folded.

    Raises:
        InputError: an operator, or an option of it, has no form in operator set 17.
    """
    version = model.opset_imports[ONNX_DOMAIN]
    if version <= RECIPE_OPSET:
        return ""
    for node in list(ir.traversal.RecursiveGraphIterator(model.graph)):
        if node.domain != ONNX_DOMAIN:
            continue
        if not onnx.defs.has(node.op_type, RECIPE_OPSET):
            raise _no_form(node, f"{node.op_type} came after operator set {RECIPE_OPSET}")
        rule = _RULES.get(node.op_type)
        if rule is not None:
            rule(node)
        _drop_defaults(node, version)
        _check_arity(node)
    model.opset_imports[ONNX_DOMAIN] = RECIPE_OPSET
    return f"{version} to {RECIPE_OPSET}"


def _has_body(op_type: str, version: int) -> bool:
    schema = onnx.defs.get_schema(op_type, version)
    return bool(schema.has_function or schema.has_context_dependent_function)


def _drop_defaults(node: ir.Node, version: int) -> None:
    """Drops attributes that set 17 doesn't know where they only say the default."""
    known = onnx.defs.get_schema(node.op_type, RECIPE_OPSET).attributes
    newer = onnx.defs.get_schema(node.op_type, version).attributes
    for name, attribute in list(node.attributes.items()):
        if name in known:
            continue
        stated = newer[name].default_value if name in newer else None
        neutral = [0] if stated is None else [onnx.helper.get_attribute_value(stated)]
        value = attribute.value
        if value not in neutral and not _all_ones(value):
            raise _no_form(node, f"{name}={value} of {node.op_type}")
        del node.attributes[name]


def _all_ones(value: object) -> bool:
    """Dilations of 1 are none."""
    return isinstance(value, (list, tuple)) and all(item == 1 for item in value)


def _check_arity(node: ir.Node) -> None:
    schema = onnx.defs.get_schema(node.op_type, RECIPE_OPSET)
    if len(node.inputs) > schema.max_input or len(node.outputs) > schema.max_output:
        raise _no_form(node, f"{node.op_type} with {len(node.inputs)} inputs")


def _no_form(node: ir.Node, what: str) -> InputError:
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
        node.op_type = "Identity"
        node.attributes.clear()


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
        raise _no_form(node, "Split into a number of parts along a dynamic axis")
    if extent % count:
        part = -(-extent // count)
        sizes = [part] * (count - 1) + [extent - part * (count - 1)]
        node.resize_inputs(2)
        _set_constant(node, 1, np.array(sizes, np.int64), "split")


def _pad(node: ir.Node) -> None:
    """Pads of chosen axes become pads of all."""
    if node.attributes.get_string("mode", "constant") == "wrap":
        raise _no_form(node, "mode 'wrap' of Pad")
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
            raise _no_form(node, f"{symmetric} of Resize with scales")
        node.attributes["coordinate_transformation_mode"] = ir.AttrString(
            "coordinate_transformation_mode", "half_pixel"
        )
    policy = node.attributes.get_string("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        raise _no_form(node, f"keep_aspect_ratio_policy={policy} of Resize")
    node.attributes.pop("keep_aspect_ratio_policy", None)
    axes = node.attributes.get_ints("axes", None)
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


def _grid_sample(node: ir.Node) -> None:
    """Set 20 renamed the modes and took up volumes."""
    old = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}
    if _rank(node) != 4:
        raise _no_form(node, "GridSample of volumes")
    mode = node.attributes.get_string("mode", "linear")
    node.attributes["mode"] = ir.AttrString("mode", old.get(mode, mode))


def _dft(node: ir.Node) -> None:
    """The axis moves from an input to an attribute."""
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


def _dequantize(node: ir.Node) -> None:
    """The output type is the scale's, said or not."""
    kind = node.attributes.get_int("output_dtype", 0)
    node.attributes.pop("output_dtype", None)
    scale = node.inputs[1]
    if kind and scale is not None and scale.dtype is not None and scale.dtype != kind:
        raise _no_form(node, f"output_dtype={ir.DataType(kind).name} of DequantizeLinear")


def _scatter(node: ir.Node) -> None:
    reduction = node.attributes.get_string("reduction", "none")
    if reduction not in ("none", "add", "mul"):
        raise _no_form(node, f"reduction={reduction} of {node.op_type}")


def _cast(node: ir.Node) -> None:
    """Saturation and rounding modes speak of 8-bit floats only, which are refused elsewhere."""
    node.attributes.pop("saturate", None)
    node.attributes.pop("round_mode", None)


def _rank(node: ir.Node) -> int:
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    if shape is None:
        raise _no_form(node, f"{node.op_type} of a tensor of unknown rank")
    return len(shape)


def _extents(node: ir.Node) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    if shape is None or not shape.is_static():
        raise _no_form(node, f"sizes of some axes of {node.op_type}, the others dynamic,")
    return np.array(shape.numpy(), np.int64)


def _constant_input(node: ir.Node, slot: int) -> np.ndarray[tuple[int, ...], np.dtype] | None:
    """The constant fed into a slot; None if the slot is empty.

    Raises:
        InputError: what is fed isn't constant.
    """
    value = node.inputs[slot] if slot < len(node.inputs) else None
    if value is None:
        return None
    if value.const_value is None:
        raise _no_form(node, f"{node.op_type} whose input {slot} is computed")
    return value.const_value.numpy()


def _set_constant(node: ir.Node, slot: int, array: np.ndarray, suffix: str) -> None:
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    made = next(value.name for value in node.outputs if value.name)
    name = f"{made}/{suffix}"
    value = ir.Value(
        name=name,
        type=ir.TensorType(ir.DataType.from_numpy(array.dtype)),
        shape=ir.Shape(list(array.shape)),
        const_value=ir.tensor(array, name=name),
    )
    graph.register_initializer(value)
    node.replace_input_with(slot, value)


def _keep_inputs(node: ir.Node, count: int) -> None:
    if len(node.inputs) > count:
        node.resize_inputs(count)


_REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSumSquare",
)  # fmt: skip
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "Split": _split, "Pad": _pad, "Resize": _resize, "GridSample": _grid_sample, "DFT": _dft,
    "QuantizeLinear": _quantize, "DequantizeLinear": _dequantize, "Cast": _cast,
    "CastLike": _cast, "ScatterElements": _scatter, "ScatterND": _scatter,
}  # fmt: skip
