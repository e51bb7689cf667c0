"""Constant scales and shifts after a contraction go into its weights and bias."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.support import OUTPUT_AXIS
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import Array, DType

_Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FoldAffine:
    """`conv(x, w, b) * s + t` becomes `conv(x, w * s, b * s + t)`; likewise for matmul.

    The batch normalisation that `Canonicalize` wrote as a scale and a shift ends here.
    """

    name: str = "fold_affine"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Fold as long as a contraction's only reader is a constant scale or shift."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            if operator.kind in OUTPUT_AXIS and operator.inputs[1] in editor.constants:
                _fold_chain(operator.name, editor)
        return editor.finish()


def _fold_chain(name: str, editor: GraphEditor) -> None:
    while True:
        contraction = editor.operators[name]
        reader = editor.only_reader(contraction.outputs[0])
        if reader is None or reader.kind not in (Kind.MUL, Kind.ADD, Kind.SUB, Kind.DIV):
            return
        vector = _per_channel(contraction, reader, editor)
        if vector is None:
            return
        folded = _folded(contraction, reader.kind, vector, editor)
        if folded is None:
            return
        editor.drop(reader.name)
        editor.put(replace(folded, outputs=reader.outputs))


def _per_channel(contraction: Operator, reader: Operator, editor: GraphEditor) -> _Vector | None:
    """The constant operand as one number for each output channel; None where it isn't that."""
    result = contraction.outputs[0]
    first, second = reader.inputs
    other = second if first == result else first
    if other not in editor.constants or first == second:
        return None
    if reader.kind in (Kind.SUB, Kind.DIV) and first != result:
        return None
    shape = editor.types[result].shape
    if editor.types[reader.outputs[0]].shape != shape:
        return None
    data = editor.constants[other]
    axis = len(shape) - 1 if contraction.kind is Kind.MATMUL else 1
    padded = data.reshape((1,) * (len(shape) - data.ndim) + data.shape)
    if any(extent != 1 for index, extent in enumerate(padded.shape) if index != axis):
        return None
    return np.broadcast_to(padded.reshape(-1), (shape[axis],)).astype(np.float64)


def _folded(
    contraction: Operator, kind: Kind, vector: _Vector, editor: GraphEditor
) -> Operator | None:
    weights = np.asarray(editor.constants[contraction.inputs[1]])
    bias_name = contraction.inputs[2] if len(contraction.inputs) > 2 else ""
    if bias_name and bias_name not in editor.constants:
        return None
    numpy_type = weights.dtype
    if (kind is Kind.DIV and not vector.all()) or not DType.of(numpy_type).is_float:
        return None
    bias: _Vector = np.zeros(vector.shape)
    if bias_name:
        bias = np.asarray(editor.constants[bias_name], np.float64)
        if bias.size not in (1, vector.size) or any(extent != 1 for extent in bias.shape[:-1]):
            return None
        bias = np.broadcast_to(bias.reshape(-1), vector.shape)
    factor = vector if kind is Kind.MUL else 1 / vector if kind is Kind.DIV else None
    if factor is None:
        bias = bias + (vector if kind is Kind.ADD else -vector)
        weights_name = contraction.inputs[1]
    else:
        bias = bias * factor
        scaled = _scale_outputs(contraction, weights, factor)
        if scaled is None:
            return None
        scaled = _rounded(scaled, numpy_type)
        if not np.isfinite(scaled).all():
            return None
        weights_name = editor.add_constant(contraction.inputs[1], scaled)
    shift = _rounded(bias, numpy_type)
    if not np.isfinite(shift).all():
        return None
    new_bias = editor.add_constant(f"{contraction.name}.bias", shift)
    return replace(contraction, inputs=(contraction.inputs[0], weights_name, new_bias))


def _rounded(data: Array, numpy_type: np.dtype[np.generic]) -> Array:
    with np.errstate(over="ignore"):
        return data.astype(numpy_type)


def _scale_outputs(contraction: Operator, weights: Array, factor: _Vector) -> Array | None:
    """Weights with each output channel scaled. A grouped transposed convolution has its output
    channels on two axes, so it is left alone."""
    if contraction.kind is Kind.CONV_TRANSPOSE and contraction.integer("group") != 1:
        return None
    axis = OUTPUT_AXIS[contraction.kind] % weights.ndim
    shape = [1] * weights.ndim
    shape[axis] = -1
    scaled: Array = np.asarray(weights, np.float64) * factor.reshape(shape)
    return scaled
