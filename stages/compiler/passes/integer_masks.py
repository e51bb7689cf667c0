"""Masks of attention on devices of integers: scores and mask are added in int16, or in int8."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.patterns import scalar
from stages.compiler.rests import constant_parameters, range_parameters, rested
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType

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
        masked = _finite(softmax.name, mask, choice, span, editor)
        editor.put(replace(total, inputs=(scores, masked)))
        least = low - span if width is DType.I16 else low - below
        parameters = range_parameters(least, high, width)
        stored = rested(total.outputs[0], *parameters, editor)
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
    parameters = constant_parameters(source, editor)
    if parameters is None:
        return None
    scale, zero = parameters
    info = np.iinfo(str(editor.types[source.inputs[0]].dtype.numpy))
    return (info.min - zero) * scale, (info.max - zero) * scale


def _rows(mask: str, editor: GraphEditor) -> list[Operator]:
    """What expands or reshapes a row to a mask, from the mask back."""
    found: list[Operator] = []
    producer = editor.producer(mask)
    while producer is not None and producer.kind in _ROWS:
        found.append(producer)
        producer = editor.producer(producer.inputs[0])
    return found


def _choice(mask: str, editor: GraphEditor) -> Operator | None:
    """The `where` between 0 and a number that masks, from which a mask is expanded."""
    rows = _rows(mask, editor)
    producer = editor.producer(rows[-1].inputs[0] if rows else mask)
    if producer is None or producer.kind is not Kind.WHERE:
        return None
    numbers = [scalar(editor, value) for value in producer.inputs[1:]]
    if any(number is None or not (number == 0 or number <= _MASKS) for number in numbers):
        return None
    return producer


def _finite(stem: str, mask: str, choice: Operator, span: float, editor: GraphEditor) -> str:
    """The mask with -span where it masks, as it is after a rest in int8."""
    numbers = [
        editor.add_constant(
            f"{stem}.mask.number",
            np.full(
                editor.types[value].shape,
                0.0 if scalar(editor, value) == 0 else -span,
                editor.types[value].dtype.numpy,
            ),
        )
        for value in choice.inputs[1:]
    ]
    value = _again(stem, choice, (choice.inputs[0], *numbers), editor)
    value = rested(value, np.float32(span / 127), np.int8(0), editor)
    for row in reversed(_rows(mask, editor)):
        value = _again(stem, row, (value,), editor)
    return value


def _again(stem: str, operator: Operator, inputs: tuple[str, ...], editor: GraphEditor) -> str:
    (result,) = operator.outputs
    copy = editor.add_value(f"{stem}.{operator.kind}", editor.types[result])
    name = editor.fresh(f"{copy}.of")
    editor.put(Operator(name, operator.kind, inputs, (copy,), operator.attributes))
    return copy
