"""Sums with a number between two quantised values: they vanish into the zero point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import floor

import numpy as np

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.patterns import scalar
from stages.compiler.rests import constant_parameters
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import Array, DType

_LEAST_STEPS = 8
"""A shift of so many steps becomes a whole number of them where the scale grows by an eighth at
most."""
_NOTHING = 1 / 64
"""Of a step: a rest of the shift that no one misses."""


@dataclass(frozen=True, slots=True)
class AbsorbShifts:
    """`quantize(dequantize(quantize(x)) + c)` becomes `quantize(x)` with another zero point: that
    is what a whole number of steps is. It saves a pass over the value, where the output stage
    ends with the activation before the sum (a learnable affine block) or has no sums at all.

    A shift of `k + r` steps, `r` a fraction: where `k` is large the scale grows until `r` is none.
    Otherwise `r` goes into the biases of the convolutions that read the value, as `r` times the
    sum of their weights; at a padded border, where fewer weights meet the value, they then take
    up to half a step for nothing. Where neither is possible the sum stays.
    """

    name: str = "absorb_shifts"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Absorb every sum that can be."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            if operator.kind in (Kind.ADD, Kind.SUB) and operator.name in editor.operators:
                found = _sum_of(operator, editor)
                if found is not None:
                    _absorb(found, editor)
        return editor.finish()


@dataclass(frozen=True, slots=True)
class _Sum:
    """`first` quantises, `restored` dequantises, `addend` is added, `second` quantises again: a
    step of `second` is `scale`, and zero lies at `zero`."""

    first: Operator
    restored: Operator
    second: Operator
    addend: float
    scale: float
    zero: float


@dataclass(frozen=True, slots=True)
class _Shift:
    """What becomes of a sum: the scale and zero point of its result, and by how many steps the
    zero point of what is quantised differs."""

    scale: np.float32
    zero: int
    steps: int


def _sum_of(operator: Operator, editor: GraphEditor) -> _Sum | None:
    addend = _addend(operator, editor)
    restored = editor.producer(operator.inputs[0])
    second = editor.only_reader(operator.outputs[0])
    if addend is None or restored is None or second is None:
        return None
    first = editor.producer(restored.inputs[0])
    if first is None or (first.kind, restored.kind, second.kind) != (
        Kind.QUANTIZE,
        Kind.DEQUANTIZE,
        Kind.QUANTIZE,
    ):
        return None
    alone = (
        editor.only_reader(first.outputs[0]) is restored
        and editor.only_reader(restored.outputs[0]) is operator
    )
    stored = editor.types[first.outputs[0]]
    same = stored == editor.types[second.outputs[0]] and stored.dtype in (DType.I8, DType.U8)
    parameters = [constant_parameters(op, editor) for op in (first, restored, second)]
    if not alone or not same or any(found is None or found[0] <= 0 for found in parameters):
        return None
    one, other, last = (found for found in parameters if found is not None)
    if one[1] != other[1]:
        return None
    return _Sum(first, restored, second, addend, *last)


def _addend(operator: Operator, editor: GraphEditor) -> float | None:
    """The number that is added to the first operand."""
    number = scalar(editor, operator.inputs[1])
    if number is None or not np.isfinite(number):
        return None
    if editor.types[operator.outputs[0]].shape != editor.types[operator.inputs[0]].shape:
        return None
    return number if operator.kind is Kind.ADD else -number


def _absorb(found: _Sum, editor: GraphEditor) -> None:
    (stored,) = found.second.outputs
    info = np.iinfo(str(editor.types[stored].dtype.numpy))
    low, high = int(info.min), int(info.max)
    steps = round(found.addend / found.scale)
    rest = found.addend - steps * found.scale
    shift = _Shift(np.float32(found.scale), int(found.zero), steps)
    biases: Mapping[str, Array] = {}
    if abs(rest) > _NOTHING * found.scale:
        whole = _whole(found, low, high) if _can_rescale(stored, editor) else None
        corrected = _corrected_biases(stored, found, rest, editor) if whole is None else {}
        if corrected is None:
            return
        shift, biases = whole or shift, corrected
    zero = shift.zero + shift.steps
    if low <= zero <= high:
        _rewrite(found, shift, zero, editor)
        for name, bias in biases.items():
            reader = editor.operators[name]
            constant = editor.add_constant(f"{name}.bias", bias)
            editor.put(replace(reader, inputs=(*reader.inputs[:2], constant)))


def _whole(found: _Sum, least: int, largest: int) -> _Shift | None:
    """A shift by a whole number of larger steps that reach as far as those before."""
    steps = floor(abs(found.addend) / found.scale)
    if steps < _LEAST_STEPS:
        return None
    scale = abs(found.addend) / steps
    low = (least - found.zero) * found.scale
    zero = min(max(round(least - low / scale), least), largest)
    signed = steps if found.addend > 0 else -steps
    return _Shift(np.float32(scale), zero, signed)


def _can_rescale(stored: str, editor: GraphEditor) -> bool:
    """Whether all that read a stored value dequantise it by one number."""
    readers = [editor.operators[name] for name in editor.readers[stored]]
    return stored not in editor.outputs and all(
        op.kind is Kind.DEQUANTIZE and constant_parameters(op, editor) is not None for op in readers
    )


def _corrected_biases(
    stored: str, found: _Sum, rest: float, editor: GraphEditor
) -> dict[str, Array] | None:
    """The biases of the convolutions that read a stored value, with `rest` times the sum of their
    weights added; None where something else reads it."""
    if not _can_rescale(stored, editor):
        return None
    biases: dict[str, Array] = {}
    for name in editor.readers[stored]:
        reader = editor.operators[name]
        (value,) = reader.outputs
        if value in editor.outputs:
            return None
        for other in editor.readers[value]:
            scaled = rest * _factor(reader, found, editor)
            bias = _corrected(editor.operators[other], value, scaled, editor)
            if bias is None:
                return None
            biases[other] = bias
    return biases


def _corrected(reader: Operator, value: str, rest: float, editor: GraphEditor) -> Array | None:
    weights = editor.constants.get(reader.inputs[1]) if len(reader.inputs) > 1 else None
    if reader.kind is not Kind.CONV or reader.inputs[0] != value or weights is None:
        return None
    bias = np.zeros(weights.shape[0])
    if len(reader.inputs) > 2 and reader.inputs[2]:
        constant = editor.constants.get(reader.inputs[2])
        if constant is None or constant.shape != bias.shape:
            return None
        bias = np.asarray(constant, np.float64)
    if not DType.of(weights.dtype).is_float:
        return None
    sums = np.asarray(weights, np.float64).reshape(len(weights), -1).sum(axis=1)
    corrected: Array = (bias + rest * sums).astype(weights.dtype)
    return corrected


def _rewrite(found: _Sum, shift: _Shift, zero: int, editor: GraphEditor) -> None:
    """Quantise once. What is dequantised with another scale than it was quantised with is
    multiplied by a number on the way."""
    (stored,) = found.second.outputs
    first = constant_parameters(found.first, editor)
    between = constant_parameters(found.restored, editor)
    assert first is not None
    assert between is not None
    if shift.scale != np.float32(found.scale):
        for name in list(editor.readers[stored]):
            reader = editor.operators[name]
            factor = _factor(reader, found, editor)
            inputs = _parameters(reader, stored, float(shift.scale) * factor, shift.zero, editor)
            editor.put(replace(reader, inputs=inputs))
    scale = float(shift.scale) * first[0] / between[0]
    inputs = _parameters(found.second, found.first.inputs[0], scale, zero, editor)
    editor.put(replace(found.second, inputs=inputs))


def _factor(reader: Operator, found: _Sum, editor: GraphEditor) -> float:
    """By what number a dequantize multiplies the value that was quantised."""
    parameters = constant_parameters(reader, editor)
    assert parameters is not None
    return parameters[0] / found.scale


def _parameters(
    operator: Operator, source: str, scale: float, zero: int, editor: GraphEditor
) -> tuple[str, str, str]:
    """Operands of a quantize or dequantize."""
    (value,) = operator.outputs
    stored = source if operator.kind is Kind.DEQUANTIZE else value
    dtype = editor.types[stored].dtype.numpy
    scale_name = editor.add_constant(f"{value}.scale", np.asarray(np.float32(scale)))
    zero_name = editor.add_constant(f"{value}.zero", np.asarray(dtype.type(zero)))
    return source, scale_name, zero_name
