"""Data movement as ONNX nodes."""

from __future__ import annotations

import numpy as np
from onnx import helper

from stages.errors import CompileError
from stages.recipe.kinds import Kind
from stages.recipe.onnx_export.emitter import Emitter, Exporter, NodeAttribute
from stages.tensors import DType

_BEFORE_THE_FIRST = np.iinfo(np.int64).min


def concat(e: Emitter) -> None:
    """concat."""
    e.finish("Concat", e.operands, {"axis": e.operator.integer("axis")})


def slice_box(e: Emitter) -> None:
    """slice, bounds on every axis; the stop -1 of a negative step lies before the first element."""
    starts, steps = e.operator.integers("starts"), e.operator.integers("steps")
    stops = [stop if stop >= 0 else _BEFORE_THE_FIRST for stop in e.operator.integers("stops")]
    axes = range(len(starts))
    bounds = [e.integers(values) for values in (starts, stops, list(axes), steps)]
    e.finish("Slice", [*e.operands, *bounds])


def split(e: Emitter) -> None:
    """split, the only kind here of several results; each is cast to its own type."""
    sizes = e.integers(e.operator.integers("sizes"))
    made = {
        name: name if e.types[name].dtype is e.compute else e.fresh("part")
        for name in e.operator.outputs
    }
    proto = helper.make_node(
        "Split",
        [e.operands[0], sizes],
        list(made.values()),
        f"{e.operator.name}:split",
        axis=e.operator.integer("axis"),
    )
    e.nodes.append(proto)
    for name, part in made.items():
        if part != name:
            e.cast(part, e.types[name].dtype, output=name)


def pad(e: Emitter) -> None:
    """pad."""
    operands = [*e.operands, e.integers(e.operator.integers("pads"))]
    mode = e.operator.word("mode")
    if mode == "constant":
        operands.append(e.scalar(e.operator.number("value")))
    e.finish("Pad", operands, {"mode": mode})


def resize(e: Emitter) -> None:
    """resize of a whole tensor, by scales where they give its extents, else by sizes.

    Raises:
        CompileError: opset 17 doesn't know the coordinates.
    """
    scales = e.operator.numbers("scales")
    extents = [int(np.floor(n * s)) for n, s in zip(e.shape(0), scales, strict=True)]
    exact = [n * s == m for n, s, m in zip(e.shape(0), scales, e.result.shape, strict=True)]
    coordinates = e.operator.word("coordinates")
    if coordinates == "half_pixel_symmetric":
        if not all(exact):
            raise CompileError(
                "resize with coordinates half_pixel_symmetric has no form in opset 17",
                where=f"operator {e.operator.name}",
                hint="use scales that give whole extents, or the coordinates half_pixel",
            )
        coordinates = "half_pixel"
    attributes: dict[str, NodeAttribute] = {
        "mode": e.operator.word("mode"),
        "coordinate_transformation_mode": coordinates,
        "nearest_mode": e.operator.word("nearest"),
    }
    if e.operator.word("mode") == "cubic":
        attributes["exclude_outside"] = int(e.operator.attributes.get("exclude_outside", 0))  # type: ignore[arg-type]
        attributes["cubic_coeff_a"] = float(
            e.operator.attributes.get("cubic_coefficient", -0.75)  # type: ignore[arg-type]
        )
    if tuple(extents) == e.result.shape:
        wanted = [e.constant(np.asarray(scales, np.float32))]
    else:
        wanted = ["", e.integers(e.result.shape)]
    e.finish("Resize", [e.operands[0], "", *wanted], attributes)


def transpose(e: Emitter) -> None:
    """transpose."""
    e.finish("Transpose", e.operands, {"perm": e.operator.integers("permutation")})


def reshape(e: Emitter) -> None:
    """reshape; extents of zero are meant as such."""
    shape = e.integers(e.operator.integers("shape"))
    e.finish("Reshape", (e.operands[0], shape), {"allowzero": 1})


def expand(e: Emitter) -> None:
    """expand."""
    e.finish("Expand", (e.operands[0], e.integers(e.operator.integers("shape"))))


def gather(e: Emitter) -> None:
    """gather; ONNX wants indices of 32 or 64 bits."""
    table, indices = e.operands
    if e.operand_type(1).dtype not in (DType.I32, DType.I64):
        indices = e.cast(indices, DType.I64)
    e.finish("Gather", (table, indices), {"axis": e.operator.integer("axis")})


def identity(e: Emitter) -> None:
    """identity, and relayout, which changes no value."""
    e.finish("Identity", e.operands)


TABLE: dict[Kind, Exporter] = {
    Kind.CONCAT: concat,
    Kind.SLICE: slice_box,
    Kind.SPLIT: split,
    Kind.PAD: pad,
    Kind.RESIZE: resize,
    Kind.TRANSPOSE: transpose,
    Kind.RESHAPE: reshape,
    Kind.EXPAND: expand,
    Kind.GATHER: gather,
    Kind.IDENTITY: identity,
    Kind.RELAYOUT: identity,
}
