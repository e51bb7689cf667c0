"""Bias correction: the mean error of weights rounded to f16 goes into the bias, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.exact import factor_bits, on_grid
from stages.compiler.support import refusal_in_device_types
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import CONTRACTIONS, Kind
from stages.recipe.semantics.evaluation import evaluate
from stages.recipe.window import Window
from stages.tensors import Array, DType, Shape, TensorType

_Doubles = NDArray[np.float64]
_Singles = NDArray[np.float32]
_MEAN_BITS = 16
_ROWS = 64


@dataclass(frozen=True, slots=True)
class CompensateRounding:
    """Adds `(w - f16(w)) . mean(x)` to the bias of each contraction (Nagel et al., "Data-Free
    Quantization Through Weight Equalization and Bias Correction", 2019, section 4.2).

    `sample` feeds the graph once, in f64, with products that no order of their sums can change
    (see `_exact_products`); the last bits of a mean are dropped, so that another processor's `exp`
    doesn't show. Behind an operator that only the host knows nothing is corrected.
    """

    sample: Mapping[str, Array]
    name: str = "compensate_rounding"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Correct every contraction whose weights the device will hold in f16."""
        if spec.float_dtype is not DType.F16 or not _any_corrected(draft):
            return draft
        editor = GraphEditor(draft)
        for operator, mean in _means(draft.graph, draft.constants, self.sample):
            # On the host weights stay in f32.
            if not refusal_in_device_types(operator, draft.graph.types, spec):
                _correct(operator, mean, editor)
        return editor.finish()


def _any_corrected(draft: Draft) -> bool:
    return any(_weights(op, draft.constants) is not None for op in draft.graph.operators)


def _weights(operator: Operator, constants: Mapping[str, Array]) -> Array | None:
    """The weights of a contraction that can be corrected."""
    if operator.kind not in (Kind.CONV, Kind.MATMUL):
        return None
    weights = constants.get(operator.inputs[1])
    if weights is None or weights.dtype != np.float32:
        return None
    if operator.kind is Kind.MATMUL and weights.ndim != 2:
        return None
    bias = operator.inputs[2] if len(operator.inputs) > 2 else ""
    return weights if not bias or bias in constants else None


def _means(
    graph: Graph, constants: Mapping[str, Array], sample: Mapping[str, Array]
) -> Iterator[tuple[Operator, _Doubles]]:
    """Each contraction to be corrected, with the mean of what its weights multiply."""
    values: dict[str, Array] = {name: _doubled(sample[name]) for name in graph.inputs}
    values |= constants  # wide ones; each is made f64 where it is read
    last_use = {name: op.name for op in graph.operators for name in op.operands}
    corrected = [op.name for op in graph.operators if _weights(op, constants) is not None]
    for operator in graph.operators:
        if any(name not in values for name in operator.operands):
            continue
        if _weights(operator, constants) is not None:
            x = np.asarray(values[operator.inputs[0]], np.float64)
            yield operator, _rounded(_mean(operator, x, values[operator.inputs[1]].shape))
        if operator.name == corrected[-1]:
            return
        if operator.kind is not Kind.HOST_CALL:
            values.update(_evaluated(operator, graph, values))
        for name in set(operator.operands):
            if last_use[name] == operator.name and name not in graph.outputs:
                del values[name]


def _evaluated(
    operator: Operator, graph: Graph, values: Mapping[str, Array]
) -> Iterator[tuple[str, Array]]:
    operands = [values[name] if name else None for name in operator.inputs]
    if operator.kind is Kind.GATHER:  # a whole table in f64 would be made for a few of its rows
        results = evaluate(operator, operands, _types_as(operator, graph, operands))
        return zip(operator.outputs, map(_doubled, results), strict=True)
    if operator.kind in CONTRACTIONS:
        operands = [*_exact_products(operator, operands), *operands[2:]]
    doubled = [_doubled(data) if data is not None else None for data in operands]
    types = [_double_type(graph.types[name]) for name in operator.outputs]
    return zip(operator.outputs, evaluate(operator, doubled, types), strict=True)


def _types_as(
    operator: Operator, graph: Graph, operands: Sequence[Array | None]
) -> list[TensorType]:
    """The type of what is gathered: that of the table as it is held."""
    (name,), table = operator.outputs, operands[0]
    assert table is not None
    return [TensorType(DType.of(table.dtype), graph.types[name].shape)]


def _exact_products(operator: Operator, operands: Sequence[Array | None]) -> list[Array]:
    """Both factors on grids so coarse that no order of a sum changes it (see `factor_bits`). A mean
    keeps fewer bits than they do."""
    x, weights = operands[:2]
    assert x is not None
    assert weights is not None
    length = x.shape[-1] if operator.kind is Kind.MATMUL else max(x.shape[1], 1)
    taps = prod(weights.shape[2:]) if operator.kind is not Kind.MATMUL else 1
    bits = factor_bits(length * taps)
    return [on_grid(x, bits), on_grid(weights, bits)]


def _doubled(data: Array) -> Array:
    return data.astype(np.float64) if DType.of(data.dtype).is_float else data


def _double_type(tensor_type: TensorType) -> TensorType:
    return TensorType(DType.F64, tensor_type.shape) if tensor_type.dtype.is_float else tensor_type


def _mean(operator: Operator, x: _Doubles, weights: Shape) -> _Doubles:
    """What each weight multiplies on average: [k] for a matmul; [channels, taps] for a
    convolution, padding counted, since at the edge a tap meets zeros."""
    if operator.kind is Kind.MATMUL:
        return np.asarray(x.reshape(-1, x.shape[-1]).mean(axis=0), np.float64)
    window = Window.of(operator, weights[2:])
    extents = window.result_extents(x.shape[2:])
    margins = [(max(0, a), max(0, b)) for a, b in zip(window.begins, window.ends, strict=True)]
    padded = np.pad(x, [(0, 0), (0, 0), *margins])
    axes = (0, *range(2, x.ndim))
    taps = [
        padded[(slice(None), slice(None), *_tap(window, offset, extents))].mean(axis=axes)
        for offset in np.ndindex(*weights[2:])
    ]
    return np.stack(taps, axis=1)


def _tap(window: Window, offset: tuple[int, ...], extents: Shape) -> Iterator[slice]:
    """The padded elements that one tap of the kernel meets."""
    for axis, (place, extent) in enumerate(zip(offset, extents, strict=True)):
        start = place * window.dilations[axis] - min(0, window.begins[axis])
        yield slice(start, start + window.strides[axis] * (extent - 1) + 1, window.strides[axis])


def _rounded(mean: _Doubles) -> _Doubles:
    """The mean with `_MEAN_BITS` significant bits: sums in another order give the same."""
    mantissa, exponent = np.frexp(mean)
    kept = np.rint(mantissa * 2**_MEAN_BITS) / 2**_MEAN_BITS
    return np.asarray(np.ldexp(kept, exponent), np.float64)


def _correct(operator: Operator, mean: _Doubles, editor: GraphEditor) -> None:
    weights = editor.constants[operator.inputs[1]]
    with np.errstate(over="ignore", invalid="ignore"):
        # Exact in f32: what rounding to f16 takes from an f32 fits into one.
        lost = np.asarray(weights - weights.astype(np.float16).astype(np.float32), np.float32)
    if not np.isfinite(lost).all() or not np.isfinite(mean).all():
        return
    missing = _missing(operator, lost, mean)
    bias = np.zeros(missing.shape)
    if len(operator.inputs) > 2 and operator.inputs[2]:
        held = np.asarray(editor.constants[operator.inputs[2]], np.float64)
        if held.size not in (1, missing.size) or any(extent != 1 for extent in held.shape[:-1]):
            return
        bias = np.broadcast_to(held.reshape(-1), missing.shape)
    name = editor.add_constant(f"{operator.name}.bias", (bias + missing).astype(np.float32))
    editor.put(replace(operator, inputs=(*operator.inputs[:2], name)))


def _missing(operator: Operator, lost: _Singles, mean: _Doubles) -> _Doubles:
    """What rounding takes from the mean of each output channel, summed in numpy's own order, some
    rows at a time: all of them in f64 would be twice the weights."""
    if operator.kind is Kind.MATMUL:
        total = np.zeros(lost.shape[1])
        for start in range(0, lost.shape[0], _ROWS):
            rows = slice(start, start + _ROWS)
            total += (mean[rows, None] * lost[rows]).sum(axis=0)
        return total
    groups = operator.integer("group")
    by_tap = lost.reshape(lost.shape[0], -1)
    inputs = mean.reshape(groups, -1)
    share = lost.shape[0] // groups
    found = np.empty(lost.shape[0])
    for channel in range(lost.shape[0]):
        found[channel] = (by_tap[channel] * inputs[channel // share]).sum()
    return found
