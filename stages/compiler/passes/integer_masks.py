"""Masks of attention on devices of integers: scores and mask are added in int16, or in int8."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.patterns import scalar
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, TensorType

_NEEDED = (Kind.ADD, Kind.SOFTMAX, Kind.QUANTIZE, Kind.DEQUANTIZE)
_NEGLIGIBLE = 20.0
"""How far below every score a masked one comes: its weight is e^-20 of the least, or less."""
_NEGLIGIBLE_IN_INT8 = 8.0
"""The same where the weights are int8, which round e^-6.3 of the largest to nothing."""
_MASKS = -1e4
"""Numbers below this mask; exporters write -inf, the least float, or -1e9, HF's models -1e4."""
_ROWS = frozenset({Kind.EXPAND, Kind.RESHAPE, Kind.IDENTITY})


@dataclass(frozen=True, slots=True)
class QuantizeMasks:
    """`softmax(scores + where(kept, 0, -inf))` of quantised scores, on a device without float.
    The mask becomes int8 with the two values 0 and -span, the sum int16 over the scores' range
    and the span below it. Where the list has no int16 it is int8, over the scores' range and what
    is negligible below it: masked scores end at its low end. A row of which the mask leaves nothing
    weighs all places alike.
    """

    name: str = "quantize_masks"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Rewrite every masked softmax whose scores are quantised."""
        width = _width(spec)
        if spec.float_dtype is not None or width is None:
            return draft
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            if operator.kind is Kind.SOFTMAX:
                _quantize_mask(operator, width, editor)
        return editor.finish()


def _width(spec: HardwareSpec) -> DType | None:
    """The widest of the two types in which the device adds and takes a softmax."""
    listed = spec.operators
    for dtype in (DType.I16, DType.I8):
        if all(kind in listed and dtype in listed[kind].dtypes for kind in _NEEDED):
            return dtype
    return None


def _quantize_mask(softmax: Operator, width: DType, editor: GraphEditor) -> None:
    total = _sum_of(softmax, editor)
    if total is None or editor.only_reader(total.outputs[0]) is None:
        return
    for scores, mask in (total.inputs, total.inputs[::-1]):
        source = editor.producer(scores)
        if width is DType.I8 and source is not None and source.kind is Kind.MATMUL:
            source = editor.producer(softmax.inputs[0])  # its output stage adds: the sum's range
        if source is None or source.kind is not Kind.DEQUANTIZE or source.integer("axis") >= 0:
            continue
        limits = _limits(source, editor)
        choice = _choice(mask, editor)
        if limits is None or limits[0] <= _MASKS or choice is None:
            continue
        low, high = limits
        below = _NEGLIGIBLE if width is DType.I16 else _NEGLIGIBLE_IN_INT8
        span = high - low + below
        finite = _Finite(softmax, editor, span)
        masked = finite.mask(mask, choice)
        editor.put(replace(total, inputs=(scores, masked)))
        least = low - span if width is DType.I16 else low - below
        stored = finite.stored(total.outputs[0], least, high, width)
        editor.put(replace(softmax, inputs=(stored,)))
        return


def _sum_of(softmax: Operator, editor: GraphEditor) -> Operator | None:
    """The sum that a softmax is of, past a rest in integers."""
    producer = editor.producer(softmax.inputs[0])
    while producer is not None and producer.kind in (Kind.QUANTIZE, Kind.DEQUANTIZE):
        producer = editor.producer(producer.inputs[0])
    return producer if producer is not None and producer.kind is Kind.ADD else None


def _limits(source: Operator, editor: GraphEditor) -> tuple[float, float] | None:
    """The least and the largest number that a quantised value can stand for."""
    if any(name not in editor.constants for name in source.inputs[1:]):
        return None
    scale = float(np.asarray(editor.constants[source.inputs[1]], np.float64).reshape(()))
    zero = 0.0
    if len(source.inputs) > 2:
        zero = float(np.asarray(editor.constants[source.inputs[2]], np.float64).reshape(()))
    info = np.iinfo(str(editor.types[source.inputs[0]].dtype.numpy))
    return (info.min - zero) * scale, (info.max - zero) * scale


def _choice(mask: str, editor: GraphEditor) -> Operator | None:
    """The `where` between 0 and a number that masks, from which a mask is expanded."""
    producer = editor.producer(mask)
    while producer is not None and producer.kind in _ROWS:
        producer = editor.producer(producer.inputs[0])
    if producer is None or producer.kind is not Kind.WHERE:
        return None
    numbers = [scalar(editor, value) for value in producer.inputs[1:]]
    if any(number is None or not (number == 0 or number <= _MASKS) for number in numbers):
        return None
    return producer


class _Finite:
    """Appends a mask of finite numbers, and rests in integers."""

    def __init__(self, softmax: Operator, editor: GraphEditor, span: float) -> None:
        self._stem = softmax.name
        self._editor = editor
        self._span = span

    def mask(self, mask: str, choice: Operator) -> str:
        """The mask with -span where it masks, as it is after a rest in int8."""
        editor = self._editor
        numbers = [
            editor.add_constant(
                f"{self._stem}.mask.number",
                np.full(
                    editor.types[value].shape,
                    0.0 if scalar(editor, value) == 0 else -self._span,
                    editor.types[value].dtype.numpy,
                ),
            )
            for value in choice.inputs[1:]
        ]
        value = self._again(choice, (choice.inputs[0], *numbers))
        scale = np.float32(self._span / 127)
        value = self._rested(value, scale, np.int8(0))
        for row in self._rows(mask):
            value = self._again(row, (value,))
        return value

    def _rows(self, mask: str) -> list[Operator]:
        """What lies between the choice and the mask, in order."""
        found: list[Operator] = []
        producer = self._editor.producer(mask)
        while producer is not None and producer.kind in _ROWS:
            found.append(producer)
            producer = self._editor.producer(producer.inputs[0])
        return found[::-1]

    def stored(self, value: str, low: float, high: float, width: DType) -> str:
        """A value of a range as it is after a rest in integers."""
        info = np.iinfo(str(width.numpy))
        scale = np.float32((high - low) / (info.max - info.min))
        zero = int(np.clip(round(info.min - low / float(scale)), info.min, info.max))
        return self._rested(value, scale, np.int16(zero) if width is DType.I16 else np.int8(zero))

    def _again(self, operator: Operator, inputs: tuple[str, ...]) -> str:
        editor = self._editor
        (result,) = operator.outputs
        copy = editor.add_value(f"{self._stem}.{operator.kind}", editor.types[result])
        name = editor.fresh(f"{copy}.of")
        editor.put(Operator(name, operator.kind, inputs, (copy,), operator.attributes))
        return copy

    def _rested(self, value: str, scale: np.float32, zero: np.int8 | np.int16) -> str:
        editor = self._editor
        dtype = DType.of(zero.dtype)
        scale_name = editor.add_constant(f"{value}.scale", np.asarray(scale))
        zero_name = editor.add_constant(f"{value}.zero", np.asarray(zero))
        stored = editor.add_value(f"{value}.{dtype}", TensorType(dtype, editor.types[value].shape))
        restored = editor.add_value(f"{value}.float", editor.types[value])
        for kind, source, result in (
            (Kind.QUANTIZE, value, stored),
            (Kind.DEQUANTIZE, stored, restored),
        ):
            operands = (source, scale_name, zero_name)
            name = editor.fresh(f"{result}.of")
            editor.put(Operator(name, kind, operands, (result,), {"axis": -1}))
        return restored
