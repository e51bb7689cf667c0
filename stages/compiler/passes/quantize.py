"""Int8 by given ranges: contractions between quantised activations get quantize and dequantize."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.passes.lower_norms import has_arithmetic
from stages.compiler.patterns import scalar
from stages.compiler.quantization import ActivationScales, Quantization, Range, WeightScales
from stages.compiler.rests import range_parameters
from stages.compiler.support import OUTPUT_AXIS, engine_of
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Engine
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import Array, DType, TensorType, row_slices

_HIGH = 127
_LARGEST_BIAS = 2.0**30
"""In steps of the accumulator: half of int32 is left to the products."""
_PART_ELEMENTS = 1 << 16


@dataclass(frozen=True, slots=True)
class QuantizeActivations:
    """Every activation with a range is quantised where it is made and dequantised where it is
    read; operators that are kept in float read it as it is. So is an output of the model, on a
    device without floats: what makes it must not run on the host for that. Runs after affine
    folding, so that batch normalisation is in the weights already."""

    quantization: Quantization
    name: str = "quantize_activations"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Insert a pair for each range."""
        editor = GraphEditor(draft)
        raised = _raised_gates(self.quantization, editor)
        for value, limits in (*self.quantization.ranges.items(), *raised.items()):
            if value in editor.types and editor.types[value].dtype.is_float:
                made = value
                if _leaves_as_integer(value, self.quantization, editor, spec):
                    made = _set_output_apart(value, self.quantization, editor)
                _quantize_value(value, made, limits, self.quantization, editor)
        explained = editor.finish().with_notes(self.quantization.notes)
        return explained.with_weighed(self.quantization.weighed)


@dataclass(frozen=True, slots=True)
class QuantizeWeights:
    """Contractions that read a quantised activation get int8 weights, one scale for each channel,
    and an int32 bias. Runs behind `SinkDequantize`, which brings the dequantize to them; `fuse`
    then makes integer groups."""

    quantization: Quantization
    name: str = "quantize_weights"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Quantise the weights of every contraction that the file doesn't keep in float."""
        editor = GraphEditor(draft)
        for operator in list(editor.operators.values()):
            if operator.kind in OUTPUT_AXIS and operator.name not in self.quantization.keep:
                _quantize_weights(operator, self.quantization.weights, editor)
        return editor.finish()


def _raised_gates(quantization: Quantization, editor: GraphEditor) -> dict[str, Range]:
    """Ranges of sums of a gate and a number that none was given for: what broadcasts them reads
    them from where they are stored. The range of the gate, shifted, is exact."""
    found: dict[str, Range] = {}
    for operator in editor.operators.values():
        if operator.kind is not Kind.ADD or operator.outputs[0] in quantization.ranges:
            continue
        limits = quantization.ranges.get(operator.inputs[0])
        number = scalar(editor, operator.inputs[1])
        (value,) = operator.outputs
        if limits is None or number is None or operator.name in quantization.keep:
            continue
        products = [editor.operators[name] for name in editor.readers[value]]
        shape = editor.types[value].shape
        if products and all(
            op.kind is Kind.MUL and editor.types[op.outputs[0]].shape != shape for op in products
        ):
            low, high = limits.low + number, limits.high + number
            found[value] = Range(min(low, 0.0), max(high, 0.0))
    return found


def _leaves_as_integer(
    value: str, quantization: Quantization, editor: GraphEditor, spec: HardwareSpec
) -> bool:
    """Whether the device can make an output only as integers, which the host dequantises."""
    maker = editor.producer(value)
    return (
        value in editor.outputs
        and spec.float_dtype is None
        and maker is not None
        and maker.name not in quantization.keep
        and (engine_of(maker, spec) is not Engine.HOST or _is_lowered(maker, spec))
    )


def _is_lowered(maker: Operator, spec: HardwareSpec) -> bool:
    return maker.kind is Kind.LAYER_NORM and has_arithmetic(spec)


def _set_output_apart(value: str, quantization: Quantization, editor: GraphEditor) -> str:
    """Give what an output's maker makes a name of its own, which operators that are kept in float
    read; the output is the dequantised one. Returns the name."""
    maker = editor.producers[value]
    made = editor.add_value(f"{value}.made", editor.types[value])
    outputs = tuple(made if name == value else name for name in maker.outputs)
    editor.put(replace(maker, outputs=outputs))
    for name in [name for name in editor.readers[value] if name in quantization.keep]:
        editor.reread(name, value, made)
    return made


def _quantize_value(
    value: str, made: str, limits: Range, quantization: Quantization, editor: GraphEditor
) -> None:
    """`made` is what is quantised: the value, or where that is an output of its own, its maker's
    result."""
    readers = [name for name in editor.readers[value] if name not in quantization.keep]
    if made == value and not readers:
        return
    scale, zero = _parameters(limits, quantization.activations)
    scale_name = editor.add_constant(f"{value}.scale", np.asarray(scale))
    zero_name = editor.add_constant(f"{value}.zero", np.asarray(zero))
    shape = editor.types[value].shape
    stored = editor.add_value(f"{value}.i8", TensorType(DType.I8, shape))
    restored = value
    if made == value:
        restored = editor.add_value(f"{value}.float", editor.types[value])
    for name in readers:
        editor.reread(name, value, restored)
    for kind, source, result in (
        (Kind.QUANTIZE, made, stored),
        (Kind.DEQUANTIZE, stored, restored),
    ):
        name, operands = editor.fresh(f"{value}.{kind}"), (source, scale_name, zero_name)
        editor.put(Operator(name, kind, operands, (result,), {"axis": -1}))


def _parameters(limits: Range, scales: ActivationScales) -> tuple[np.float32, np.generic]:
    if scales is ActivationScales.SYMMETRIC:
        return np.float32(max(-limits.low, limits.high) / _HIGH), np.int8(0)
    return range_parameters(limits.low, limits.high, DType.I8)


def _quantize_weights(operator: Operator, scales: WeightScales, editor: GraphEditor) -> None:
    producer = editor.producer(operator.inputs[0])
    weights = editor.constants.get(operator.inputs[1])
    if producer is None or producer.kind is not Kind.DEQUANTIZE or weights is None:
        return
    axis = OUTPUT_AXIS[operator.kind] % weights.ndim
    activation_scale = editor.constants[producer.inputs[1]]
    floor = _least_scale(operator, activation_scale, weights.shape[axis], editor)
    stored, scale = _symmetric(weights, axis, scales, floor)
    stored_name = editor.add_constant(f"{operator.inputs[1]}.i8", stored)
    scale_name = editor.add_constant(f"{operator.inputs[1]}.scale", scale)
    restored = editor.add_value(f"{operator.inputs[1]}.float", editor.types[operator.inputs[1]])
    name, operands = editor.fresh(f"{operator.name}.dequantize_weights"), (stored_name, scale_name)
    editor.put(Operator(name, Kind.DEQUANTIZE, operands, (restored,), {"axis": axis}))
    bias = _integer_bias(operator, activation_scale, scale, editor)
    editor.put(replace(operator, inputs=(operator.inputs[0], restored, *bias)))


def _least_scale(
    operator: Operator, activation_scale: Array, channels: int, editor: GraphEditor
) -> NDArray[np.float64]:
    """The weight scale of each channel below which its bias would leave the accumulator: where
    training left a channel's weights near zero. What they lose then is below 2**-16 of the bias
    for each product."""
    bias = editor.constants.get(operator.inputs[2]) if len(operator.inputs) > 2 else None
    if bias is None or bias.shape != (channels,) or not np.isfinite(bias).all():
        return np.zeros(channels)
    return np.abs(np.asarray(bias, np.float64)) / (float(np.min(activation_scale)) * _LARGEST_BIAS)


def _integer_bias(
    operator: Operator, activation_scale: Array, weight_scale: Array, editor: GraphEditor
) -> tuple[str, ...]:
    """The bias as int32 in steps of the accumulator, activation scale x weight scale; as it is
    where it isn't one constant for each channel."""
    name = operator.inputs[2] if len(operator.inputs) > 2 else ""
    data = editor.constants.get(name)
    if data is None or data.shape != weight_scale.shape:
        return operator.inputs[2:]
    step = np.asarray(activation_scale, np.float64) * np.asarray(weight_scale, np.float64)
    steps = np.rint(np.asarray(data, np.float64) / step)
    if np.abs(steps).max(initial=0) > np.iinfo(np.int32).max:
        return operator.inputs[2:]
    stored = editor.add_constant(f"{name}.i32", steps.astype(np.int32))
    scale = editor.add_constant(f"{name}.scale", step.astype(np.float32))
    restored = editor.add_value(f"{name}.float", editor.types[name])
    dequantize = editor.fresh(f"{operator.name}.dequantize_bias")
    editor.put(Operator(dequantize, Kind.DEQUANTIZE, (stored, scale), (restored,), {"axis": 0}))
    return (restored,)


def _symmetric(
    weights: Array, axis: int, scales: WeightScales, floor: NDArray[np.float64]
) -> tuple[Array, Array]:
    """Weights in [-127, 127], and the float32 scale of each channel, no less than `floor`: the
    same for all where one holds for the tensor."""
    largest = _largest(weights, axis)
    least = floor.reshape(largest.shape)
    largest = np.maximum(largest, least * _HIGH)
    if scales is WeightScales.PER_TENSOR:
        largest = np.full_like(largest, largest.max(initial=0.0))
    scale = np.where(largest > 0, largest / _HIGH, 1.0).astype(np.float32)
    stored = np.empty(weights.shape, np.int8)
    for rows in _parts(weights):
        steps = np.asarray(weights[rows], np.float64) / (scale[rows] if axis == 0 else scale)
        np.rint(steps, out=steps)
        stored[rows] = np.clip(steps, -_HIGH, _HIGH, out=steps)
    return stored, scale.reshape(-1)


def _largest(weights: Array, axis: int) -> NDArray[np.float64]:
    """The largest magnitude of each channel, in an array of the weights' rank."""
    others = tuple(other for other in range(weights.ndim) if other != axis)
    shape = [extent if place == axis else 1 for place, extent in enumerate(weights.shape)]
    found = np.zeros(shape)
    for rows in _parts(weights) if weights.size else ():
        part = weights[rows]
        known = found[rows] if axis == 0 else found
        for ends, sign in ((part.max, 1), (part.min, -1)):
            extreme = np.asarray(ends(axis=others, keepdims=True), np.float64)
            np.maximum(known, sign * extreme, out=known)
    return found


def _parts(weights: Array) -> Iterator[slice]:
    """Rows of weights, so many at a time that what is made of them stays in the cache."""
    return row_slices(weights, _PART_ELEMENTS)
