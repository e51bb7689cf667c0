"""Cross-layer equalisation: channels of one value brought to like sizes, the same in float."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.quantization import Quantization
from stages.compiler.support import OUTPUT_AXIS
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import Array, DType

_Doubles = NDArray[np.float64]
_PASSING = frozenset({Kind.RELU, Kind.LEAKY_RELU})
"""What a positive factor goes through unchanged."""


@dataclass(frozen=True, slots=True)
class Equalizable:
    """A value whose channels may be scaled: `maker` ends the scaling above it, `between` are the
    operators that it goes through, and `readers` undo it in their weights.

    `weight_sizes` is the largest weight that meets each channel, where weights of several channels
    share a scale; None where each output channel reads one alone, so that its scale adapts.
    """

    value: str
    maker: Operator
    between: tuple[Operator, ...]
    readers: tuple[Operator, ...]
    axis: int
    weight_sizes: _Doubles | None


@dataclass(frozen=True, slots=True)
class EqualizeChannels:
    """Divides channel c of a value by `channel_factors[value][c]` where it is made, and multiplies
    the weights that read it by the same (Nagel et al., "Data-Free Quantization Through Weight
    Equalization and Bias Correction", 2019, section 4.1). Real numbers compute the same; floats but
    for the last bit of weights.

    Factors for values that this graph can't scale are passed over. Runs behind `FoldAffine`.
    """

    quantization: Quantization
    name: str = "equalize_channels"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Rewrite the constants on either side of each value."""
        editor = GraphEditor(draft)
        for found in equalizable(draft):
            factors = self.quantization.channel_factors.get(found.value)
            if factors is not None:
                _scale(found, np.asarray(factors, np.float64), editor)
        return editor.finish()


def equalizable(draft: Draft) -> tuple[Equalizable, ...]:
    """Every value whose channels can be scaled, in the order of the operators."""
    editor = GraphEditor(draft)
    found = (_equalizable(value, editor) for op in draft.graph.operators for value in op.outputs)
    return tuple(item for item in found if item is not None)


def _equalizable(value: str, editor: GraphEditor) -> Equalizable | None:
    readers = [editor.operators[name] for name in editor.readers[value]]
    if not readers or value in editor.outputs or not editor.types[value].dtype.is_float:
        return None
    rank = len(editor.types[value].shape)
    axes = {_read_axis(reader, value, rank, editor) for reader in readers}
    if len(axes) != 1 or None in axes:
        return None
    (axis,) = axes
    between: list[Operator] = []
    maker = editor.producer(value)
    while maker is not None and maker.kind in _PASSING:
        between.append(maker)
        source = maker.inputs[0]
        if editor.only_reader(source) is None:
            return None
        maker = editor.producer(source)
    if maker is None or axis is None or axis != _made_axis(maker, rank, editor):
        return None
    sizes = _weight_sizes(readers, editor)
    return Equalizable(value, maker, tuple(between), tuple(readers), axis, sizes)


def _read_axis(reader: Operator, value: str, rank: int, editor: GraphEditor) -> int | None:
    """The axis of channels that constant weights multiply; None where they don't."""
    if reader.kind not in OUTPUT_AXIS or reader.inputs[0] != value or value in reader.inputs[1:]:
        return None
    weights = editor.constants.get(reader.inputs[1])
    if weights is None or weights.dtype != np.float32:
        return None
    if reader.kind is Kind.MATMUL:
        return rank - 1 if weights.ndim == 2 else None
    return 1


def _made_axis(maker: Operator, rank: int, editor: GraphEditor) -> int | None:
    """The axis along which an operator's own constants can scale what it makes."""
    if maker.kind not in OUTPUT_AXIS:
        return None
    weights = editor.constants.get(maker.inputs[1])
    if weights is None or weights.dtype != np.float32:
        return None
    if maker.kind is Kind.CONV_TRANSPOSE and maker.integer("group") != 1:
        return None
    if maker.kind is Kind.MATMUL and weights.ndim != 2:
        return None
    channels = (weights.shape[OUTPUT_AXIS[maker.kind] % weights.ndim],)
    biases = [name for name in maker.inputs[2:] if name]
    data = [editor.constants.get(name) for name in biases]
    if any(item is None or item.shape != channels for item in data):
        return None
    return rank - 1 if maker.kind is Kind.MATMUL else 1


def _weight_sizes(readers: Sequence[Operator], editor: GraphEditor) -> _Doubles | None:
    sizes = [
        _columns(reader, np.abs(np.asarray(editor.constants[reader.inputs[1]], np.float64)))
        for reader in readers
        if not _reads_one_channel(reader, editor)
    ]
    return np.max(sizes, axis=0) if sizes else None


def _reads_one_channel(reader: Operator, editor: GraphEditor) -> bool:
    return reader.kind is Kind.CONV and editor.types[reader.inputs[1]].shape[1] == 1


def _columns(reader: Operator, sizes: _Doubles) -> _Doubles:
    """The largest of the weights that meet each input channel."""
    if reader.kind is not Kind.CONV:
        return np.asarray(sizes.max(axis=tuple(range(1, sizes.ndim)), initial=0.0))
    groups = reader.integer("group")
    split = sizes.reshape(groups, -1, *sizes.shape[1:])
    others = (1, *range(3, split.ndim))
    return np.asarray(split.max(axis=others, initial=0.0).reshape(-1))


def _scale(found: Equalizable, factors: _Doubles, editor: GraphEditor) -> None:
    readers = [editor.operators[op.name] for op in found.readers]
    changed = [
        *_divided(editor.operators[found.maker.name], factors, editor),
        *((reader.name, 1, _multiplied(reader, factors, editor)) for reader in readers),
    ]
    if not all(np.isfinite(data).all() for _, _, data in changed):
        return
    for name, place, data in changed:
        operator = editor.operators[name]
        constant = editor.add_constant(operator.inputs[place], data)
        inputs = (*operator.inputs[:place], constant, *operator.inputs[place + 1 :])
        editor.put(replace(operator, inputs=inputs))


def _divided(
    maker: Operator, factors: _Doubles, editor: GraphEditor
) -> Iterator[tuple[str, int, Array]]:
    """The maker's constants by place, divided along its channels."""
    for place, name in enumerate(maker.inputs[1:], start=1):
        if name:
            data = editor.constants[name]
            axis = OUTPUT_AXIS[maker.kind] % data.ndim if place == 1 else 0
            yield maker.name, place, _along(data, axis, 1 / factors)


def _multiplied(reader: Operator, factors: _Doubles, editor: GraphEditor) -> Array:
    weights = editor.constants[reader.inputs[1]]
    if reader.kind is not Kind.CONV:
        return _along(weights, 0, factors)
    groups = reader.integer("group")
    split = np.asarray(weights, np.float64).reshape(groups, -1, *weights.shape[1:])
    shape = [groups, 1, weights.shape[1]] + [1] * (weights.ndim - 2)
    return _narrowed(split * factors.reshape(shape), weights)


def _along(data: Array, axis: int, factors: _Doubles) -> Array:
    shape = [1] * data.ndim
    shape[axis] = -1
    return _narrowed(np.asarray(data, np.float64) * factors.reshape(shape), data)


def _narrowed(wide: _Doubles, like: Array) -> Array:
    assert DType.of(like.dtype).is_float
    with np.errstate(over="ignore", under="ignore"):
        return wide.reshape(like.shape).astype(like.dtype)
