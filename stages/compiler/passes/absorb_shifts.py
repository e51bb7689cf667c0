"""Sums with a number vanish into the zero points of quantised values and the biases behind them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.passes.scales import keep_stored
from stages.compiler.patterns import scalar
from stages.compiler.quantization import Quantization
from stages.compiler.rests import constant_parameters
from stages.compiler.support import OUTPUT_AXIS
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind

_ABSORBING = frozenset({Kind.CONV, Kind.MATMUL})


@dataclass(frozen=True, slots=True)
class AbsorbShifts:
    """`conv(dequantize(x, s, z) + t)` becomes `conv(dequantize(x, s, z - n))`, n being the whole
    steps of t; what is left of t, half a step at most, goes through the weights into the bias.

    A scale and a shift behind an activation (the "learnable affine block" of re-parameterised nets)
    then cost neither an operator nor a second rounding. Where a convolution pads, the rest of t is
    missed at the edge alone, by less than rounding a value loses. Only for quantisations made here:
    a model that comes quantised keeps its numbers. Runs behind `AbsorbScales`.
    """

    quantization: Quantization
    name: str = "absorb_shifts"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Absorb every shift of a quantised value that only contractions read."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            current = editor.operators.get(operator.name)
            if current is None or current.name in self.quantization.keep:
                continue
            if current.kind in (Kind.ADD, Kind.SUB):
                _absorb(current, editor)
        return editor.finish()


def _absorb(shift: Operator, editor: GraphEditor) -> None:
    found = _value_and_number(shift, editor)
    if found is None:
        return
    value, number = found
    source = editor.producer(value)
    (result,) = shift.outputs
    if source is None or source.kind is not Kind.DEQUANTIZE or source.integer("axis") >= 0:
        return
    zero = editor.constants.get(source.inputs[2]) if len(source.inputs) > 2 else None
    parameters = constant_parameters(source, editor)
    readers = _contractions(result, editor)
    if zero is None or parameters is None or readers is None or result in editor.outputs:
        return
    if editor.types[value] != editor.types[result]:
        return
    scale, zero_point = parameters
    steps = float(np.rint(number / scale))
    info = np.iinfo(str(zero.dtype))
    if not info.min <= zero_point - steps <= info.max:
        return  # padding must be exact
    for reader in readers:
        _add_to_bias(reader, number - steps * scale, editor)
    moved = editor.add_constant(f"{shift.name}.zero", np.asarray(zero_point - steps, zero.dtype))
    inputs = (source.inputs[0], source.inputs[1], moved)
    editor.put(Operator(shift.name, Kind.DEQUANTIZE, inputs, shift.outputs, source.attributes))
    for name in list(editor.readers[result]):
        if editor.operators[name].kind is Kind.QUANTIZE:
            keep_stored(editor.operators[name], editor)


def _value_and_number(shift: Operator, editor: GraphEditor) -> tuple[str, float] | None:
    """What is shifted, and by how much."""
    first, second = shift.inputs
    number = scalar(editor, second)
    if number is not None:
        sign = 1.0 if shift.kind is Kind.ADD else -1.0
        return (first, sign * number) if np.isfinite(number) else None
    number = scalar(editor, first)
    if number is None or not np.isfinite(number) or shift.kind is Kind.SUB:
        return None
    return second, number


def _contractions(value: str, editor: GraphEditor) -> list[Operator] | None:
    """All that read a value, itself or quantised and dequantised again; None where one of them
    can't take up a number in its bias."""
    found: list[Operator] = []
    for name in editor.readers[value]:
        reader = editor.operators[name]
        if reader.kind is not Kind.QUANTIZE:
            if not _takes_bias(reader, value, editor):
                return None
            found.append(reader)
            continue
        (stored,) = reader.outputs
        restoring = [editor.operators[other] for other in editor.readers[stored]]
        if stored in editor.outputs or not restoring:
            return None
        for dequantize in restoring:
            if dequantize.kind is not Kind.DEQUANTIZE or dequantize.outputs[0] in editor.outputs:
                return None
            inner = _contractions(dequantize.outputs[0], editor)
            if inner is None:
                return None
            found += inner
    return found


def _takes_bias(reader: Operator, value: str, editor: GraphEditor) -> bool:
    if reader.kind not in _ABSORBING or reader.inputs[0] != value:
        return False
    weights = editor.constants.get(reader.inputs[1])
    if weights is None or weights.dtype != np.float32 or value in reader.inputs[1:]:
        return False
    if reader.kind is Kind.MATMUL and weights.ndim != 2:
        return False
    if len(reader.inputs) < 3 or not reader.inputs[2]:
        return True
    bias = editor.constants.get(reader.inputs[2])
    channels = weights.shape[OUTPUT_AXIS[reader.kind] % weights.ndim]
    return bias is not None and bias.dtype == np.float32 and bias.shape == (channels,)


def _add_to_bias(reader: Operator, number: float, editor: GraphEditor) -> None:
    """Let a contraction meet `number` more in every element that it reads."""
    current = editor.operators[reader.name]
    weights = np.asarray(editor.constants[current.inputs[1]], np.float64)
    axis = OUTPUT_AXIS[current.kind] % weights.ndim
    taken = weights.sum(axis=tuple(other for other in range(weights.ndim) if other != axis))
    bias = np.zeros(taken.shape)
    if len(current.inputs) > 2 and current.inputs[2]:
        bias = np.asarray(editor.constants[current.inputs[2]], np.float64)
    moved = (bias + taken * number).astype(np.float32)
    if np.isfinite(moved).all():
        name = editor.add_constant(f"{current.name}.bias", moved)
        editor.put(replace(current, inputs=(*current.inputs[:2], name)))
