"""Rests in integers: what is computed in float between integers, stored and read again."""

from __future__ import annotations

import numpy as np

from stages.compiler.draft import GraphEditor
from stages.compiler.patterns import scalar
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, TensorType


def range_parameters(low: float, high: float, dtype: DType) -> tuple[np.float32, np.generic]:
    """The scale with which a range takes all steps of an integer type, and the zero point."""
    info = np.iinfo(str(dtype.numpy))
    scale = np.float32((high - low) / (info.max - info.min))
    zero = np.clip(round(info.min - low / float(scale)), info.min, info.max)
    return scale, dtype.numpy.type(zero)


def constant_parameters(operator: Operator, editor: GraphEditor) -> tuple[float, float] | None:
    """The scale and the zero point of a quantize or dequantize; None where they aren't one constant
    each."""
    numbers = [scalar(editor, name) for name in operator.inputs[1:]]
    scale, zero = numbers[0], numbers[1] if len(numbers) > 1 else 0.0
    return None if scale is None or zero is None else (scale, zero)


def rested(value: str, scale: np.float32, zero: np.generic, editor: GraphEditor) -> str:
    """A value as it is behind a quantize, with one scale and the zero point's type, and a
    dequantize; returns its name."""
    return rested_in(scale, value, scale, zero, editor)


def rested_in(
    unit: np.float32, value: str, scale: np.float32, zero: np.generic, editor: GraphEditor
) -> str:
    """A value as it is behind a quantize, and a dequantize whose steps are of another unit: the
    value times `unit / scale`."""
    dtype = DType.of(zero.dtype)
    scale_name = editor.add_constant(f"{value}.scale", np.asarray(scale))
    unit_name = scale_name
    if unit != scale:
        unit_name = editor.add_constant(f"{value}.unit", np.asarray(unit))
    zero_name = editor.add_constant(f"{value}.zero", np.asarray(zero))
    stored = editor.add_value(f"{value}.{dtype}", TensorType(dtype, editor.types[value].shape))
    restored = editor.add_value(f"{value}.float", editor.types[value])
    for kind, source, result, step in (
        (Kind.QUANTIZE, value, stored, scale_name),
        (Kind.DEQUANTIZE, stored, restored, unit_name),
    ):
        name, operands = editor.fresh(f"{result}.of"), (source, step, zero_name)
        editor.put(Operator(name, kind, operands, (result,), {"axis": -1}))
    return restored
