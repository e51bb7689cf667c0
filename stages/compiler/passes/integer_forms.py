"""Forms of quantised models that need no float between the integers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.rests import constant_parameters
from stages.compiler.support import POINTWISE, refusal, refusal_in_device_types
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import Array, DType, TensorType, row_slices

_LARGEST = {DType.I8: 127, DType.I16: 32767}
_PART_ELEMENTS = 1 << 20
_SHIFTED = POINTWISE - {Kind.QUANTIZE, Kind.DEQUANTIZE, Kind.CAST, Kind.WHERE}


@dataclass(frozen=True, slots=True)
class QuantizeConcat:
    """`quantize(concat(a, b))` becomes `concat(quantize(a), quantize(b))`: what is joined is
    moved as integers. Constants among the operands are quantised now."""

    name: str = "quantize_concat"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Rewrite every concat whose only reader quantises it with one scale."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            if operator.kind is Kind.CONCAT:
                _quantize_operands(operator, editor)
        return editor.finish()


def _quantize_operands(concat: Operator, editor: GraphEditor) -> None:
    (joined,) = concat.outputs
    quantize = editor.only_reader(joined)
    if quantize is None or quantize.kind is not Kind.QUANTIZE or quantize.integer("axis") >= 0:
        return
    parameters = constant_parameters(quantize, editor)
    if parameters is None:
        return
    scale, zero = parameters
    stored = editor.types[quantize.outputs[0]].dtype
    inputs = []
    for value in concat.inputs:
        data = editor.constants.get(value)
        if data is not None:
            info = np.iinfo(str(stored.numpy))
            steps = np.rint(np.asarray(data, np.float64) / scale) + zero
            whole = np.clip(steps, info.min, info.max).astype(stored.numpy)
            inputs.append(editor.add_constant(f"{value}.{stored}", whole))
            continue
        part_type = TensorType(stored, editor.types[value].shape)
        part = editor.add_value(f"{value}.{stored}", part_type)
        name = editor.fresh(f"{concat.name}.{value}.quantize")
        operands = (value, *quantize.inputs[1:])
        editor.put(Operator(name, Kind.QUANTIZE, operands, (part,), quantize.attributes))
        inputs.append(part)
    editor.drop(quantize.name)
    editor.put(replace(concat, inputs=tuple(inputs), outputs=quantize.outputs))


@dataclass(frozen=True, slots=True)
class QuantizeTables:
    """`quantize(gather(table, i))` becomes `gather(quantize(table), i)` for a constant table: the
    same numbers, and an embedding takes a quarter of the memory. Not where the device gathers
    floats alone."""

    name: str = "quantize_tables"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Quantise each table of which everything that is gathered is quantised."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            if operator.kind is Kind.GATHER:
                _quantize_table(operator, editor, spec)
        return editor.finish()


def _quantize_table(gather: Operator, editor: GraphEditor, spec: HardwareSpec) -> None:
    table, indices = gather.inputs
    quantize = editor.only_reader(gather.outputs[0])
    data = editor.constants.get(table)
    if data is None or quantize is None or quantize.kind is not Kind.QUANTIZE:
        return
    if constant_parameters(quantize, editor) is None or quantize.integer("axis") >= 0:
        return
    if not np.isfinite(data).all():
        return
    (result,) = quantize.outputs
    stored = TensorType(editor.types[result].dtype, data.shape)
    moved = [stored, editor.types[indices]]
    in_float = refusal_in_device_types(gather, editor.types, spec)
    if not in_float and refusal(gather, moved, editor.types[result], spec):
        return
    name = editor.add_constant(f"{table}.{stored.dtype}", _quantized(data, quantize, editor))
    editor.drop(quantize.name)
    editor.put(replace(gather, inputs=(name, indices), outputs=(result,)))


def _quantized(data: Array, quantize: Operator, editor: GraphEditor) -> Array:
    """A constant as an operator would quantise it, a part at a time."""
    from stages.recipe.semantics import evaluate  # most networks have no table

    dtype = editor.types[quantize.outputs[0]].dtype
    parameters = [editor.constants[name] for name in quantize.inputs[1:]]
    stored = np.empty(data.shape, dtype.numpy)
    for rows in row_slices(data, _PART_ELEMENTS):
        part = data[rows]
        types = [TensorType(dtype, part.shape)]
        (stored[rows],) = evaluate(quantize, [part, *parameters], types)
    return stored


@dataclass(frozen=True, slots=True)
class QuantizeConstants:
    """On a device without float, constants that meet quantised values elementwise are quantised
    too, with the widest integers that the operator list takes for the kind."""

    name: str = "quantize_constants"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Quantise the float constants of pointwise operators between integers."""
        if spec.float_dtype is not None:
            return draft
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            if operator.kind not in _SHIFTED:
                continue
            dtype = _widest(operator.kind, spec)
            for value in operator.operands:
                data = editor.constants.get(value)
                if data is not None and dtype is not None and DType.of(data.dtype).is_float:
                    _quantize_constant(editor.operators[operator.name], value, dtype, editor)
        return editor.finish()


def _widest(kind: Kind, spec: HardwareSpec) -> DType | None:
    """The widest type that both the kind and `dequantize` take."""
    listed, reads = spec.operators.get(kind), spec.operators.get(Kind.DEQUANTIZE)
    if listed is None or reads is None:
        return None
    both = listed.dtypes & reads.dtypes
    return next((dtype for dtype in (DType.I16, DType.I8) if dtype in both), None)


def _quantize_constant(operator: Operator, value: str, dtype: DType, editor: GraphEditor) -> None:
    data: Array = editor.constants[value]
    numbers = np.asarray(data, np.float64)
    largest = float(np.abs(numbers).max(initial=0.0))
    if not np.isfinite(largest):
        return
    scale = np.float32(largest / _LARGEST[dtype]) if largest else np.float32(1)
    if scale == 0:
        return
    stored = np.rint(numbers / np.float64(scale)).astype(dtype.numpy)
    stored_name = editor.add_constant(f"{value}.{dtype}", stored)
    scale_name = editor.add_constant(f"{value}.scale", np.asarray(scale))
    restored = editor.add_value(f"{value}.float", editor.types[value])
    name = editor.fresh(f"{operator.name}.{value}.dequantize")
    editor.put(
        Operator(name, Kind.DEQUANTIZE, (stored_name, scale_name), (restored,), {"axis": -1})
    )
    editor.reread(operator.name, value, restored)
