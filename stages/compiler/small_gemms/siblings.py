"""Siblings: contractions of one operand with constant weights, and how they become one.

Weights, biases and scales are laid side by side along the output channels (n of the GEMM), and
slices give each sibling its part of the result. A transformer's projections to queries, keys and
values are the best known case; the forks of an Inception block another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stages.compiler.draft import GraphEditor
from stages.compiler.slices import slice_along
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import Array, DType, TensorType

_FOLLOWERS = frozenset(
    {
        *(Kind.RELU, Kind.LEAKY_RELU, Kind.CLIP, Kind.TANH, Kind.SIGMOID, Kind.HARD_SIGMOID),
        *(Kind.HARD_SWISH, Kind.SILU, Kind.GELU, Kind.ELU, Kind.SELU, Kind.SOFTPLUS),
        *(Kind.SOFTSIGN, Kind.MISH),
    }
)
"""What may stand between a contraction and the end of a sibling: functions of one value."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A constant operand as it is stored; `scale` and `zero` by channel, where it is quantised."""

    data: Array
    scale: Array | None = None
    zero: Array | None = None


@dataclass(frozen=True, slots=True)
class Sibling:
    """One contraction with what follows it: functions of one value, and perhaps a quantize.

    `weights` have the output channels on axis `axis`; `channel` is their axis in the result.
    """

    seed: Operator
    feeders: tuple[Operator, ...]
    followers: tuple[Operator, ...]
    quantize: Operator | None
    weights: Stored
    bias: Stored | None
    axis: int
    channel: int

    @property
    def members(self) -> tuple[Operator, ...]:
        """Everything that would run as one group."""
        end = () if self.quantize is None else (self.quantize,)
        return (*self.feeders, self.seed, *self.followers, *end)

    @property
    def result(self) -> str:
        """The value that leaves."""
        return self.members[-1].outputs[0]

    @property
    def width(self) -> int:
        """Output channels."""
        return int(self.weights.data.shape[self.axis])


def families(editor: GraphEditor) -> Iterator[tuple[Sibling, ...]]:
    """Sets of two and more contractions that can be one, in the order of their first member."""
    found: dict[object, list[Sibling]] = {}
    for operator in list(editor.operators.values()):
        sibling = sibling_of(operator, editor)
        if sibling is not None:
            found.setdefault(_likeness(sibling, editor), []).append(sibling)
    for members in found.values():
        forms = {_form(item.bias) for item in members if item.bias is not None}
        if len(members) > 1 and len(forms) <= 1:
            yield tuple(members)


def sibling_of(operator: Operator, editor: GraphEditor) -> Sibling | None:
    """A contraction with constant weights, and what may go along with it; None for others."""
    if operator.kind is Kind.MATMUL:
        axis, rank = 1, 2
    elif operator.kind is Kind.CONV and operator.integer("group") == 1:
        axis, rank = 0, editor.types[operator.inputs[1]].rank
    else:
        return None
    if editor.types[operator.inputs[1]].rank != rank:
        return None
    result = editor.types[operator.outputs[0]]
    channel = 1 if operator.kind is Kind.CONV else result.rank - 1
    width = editor.types[operator.inputs[1]].shape[axis]
    weights = _stored(operator.inputs[1], axis, width, editor)
    name = operator.inputs[2] if len(operator.inputs) > 2 else ""
    bias = _bias(name, width, editor) if name else None
    if weights is None or (name and bias is None):
        return None
    followers, quantize = tail_of(operator, editor)
    return Sibling(
        operator,
        feeders_of(operator, editor),
        followers,
        quantize,
        weights,
        bias,
        axis,
        channel,
    )


def feeders_of(operator: Operator, editor: GraphEditor) -> tuple[Operator, ...]:
    """The dequantizes that an operator reads."""
    makers = [editor.producer(value) for value in dict.fromkeys(operator.operands)]
    return tuple(op for op in makers if op is not None and op.kind is Kind.DEQUANTIZE)


def merge(family: Sequence[Sibling], editor: GraphEditor) -> list[Operator]:
    """Make one contraction of a family, in the editor. Returns what then stands where the family
    stood: the contraction with all that goes along, and a slice for each sibling."""
    first = family[0]
    stem = f"{first.seed.name}.siblings"
    for item in family:
        for operator in item.members[len(item.feeders) :]:
            editor.drop(operator.name)
    weights = _joined_weights(family, stem, editor)
    bias = _joined_bias(family, stem, editor)
    made = [*weights[1], *bias[1]]
    source = first.seed.inputs[0]
    producer = editor.producer(source)
    if producer is not None and producer.kind is Kind.DEQUANTIZE:
        made.insert(0, producer)
    name = editor.fresh(stem)
    value = _widened(first.seed.outputs[0], family, stem, editor)
    operands = (source, weights[0], *((bias[0],) if bias[0] else ()))
    seed = replace(first.seed, name=name, inputs=operands, outputs=(value,))
    made.append(editor.put(seed))
    for number, follower in enumerate(first.followers):
        name = editor.fresh(f"{stem}.{number}.{follower.kind}")
        after = _widened(follower.outputs[0], family, name, editor)
        made.append(editor.put(replace(follower, name=name, inputs=(value,), outputs=(after,))))
        value = after
    if first.quantize is not None:
        quantize = _joined_quantize(family, value, stem, editor)
        made.append(editor.put(quantize))
        value = quantize.outputs[0]
    return [*made, *_cut(family, value, editor)]


def _cut(family: Sequence[Sibling], value: str, editor: GraphEditor) -> Iterator[Operator]:
    """A slice for each sibling's result."""
    shape, axis, start = editor.types[value].shape, family[0].channel, 0
    for item in family:
        attributes = slice_along(shape, axis, start, start + item.width)
        start += item.width
        name = editor.fresh(f"{item.result}.part")
        yield editor.put(Operator(name, Kind.SLICE, (value,), (item.result,), attributes))


def _likeness(item: Sibling, editor: GraphEditor) -> object:
    """What siblings must have in common."""
    producer = editor.producer(item.seed.inputs[0])
    source: object = item.seed.inputs[0]
    if producer is not None and producer.kind is Kind.DEQUANTIZE:
        source = producer.inputs, tuple(producer.attributes.items())
    shape = list(item.weights.data.shape)
    del shape[item.axis]
    ends = editor.types[item.result].dtype, item.quantize is not None
    tail = tuple((op.kind, tuple(sorted(op.attributes.items()))) for op in item.followers)
    attributes = tuple(sorted(item.seed.attributes.items()))
    return source, item.seed.kind, attributes, tuple(shape), _form(item.weights), tail, ends


def _form(stored: Stored) -> object:
    """How a constant is kept: its type, whether it is quantised, whether it has a zero point."""
    scale = None if stored.scale is None else stored.scale.dtype
    return stored.data.dtype, scale, stored.zero is not None


def _stored(value: str, axis: int, width: int, editor: GraphEditor) -> Stored | None:
    """A constant, or the dequantize of one with a scale for each channel or for all."""
    data = editor.constants.get(value)
    if data is not None:
        return Stored(data) if DType.of(data.dtype).is_float else None
    producer = editor.producer(value)
    if producer is None or producer.kind is not Kind.DEQUANTIZE:
        return None
    data, scale, *zero = (editor.constants.get(name) for name in producer.operands)
    if data is None or scale is None or (zero and zero[0] is None):
        return None
    if producer.integer("axis") not in (-1, axis) and scale.size > 1:
        return None
    wide = [np.broadcast_to(item.reshape(-1), (width,)) for item in (scale, *zero)]  # type: ignore[union-attr]
    return Stored(data, wide[0], wide[1] if zero else None)


def _bias(value: str, width: int, editor: GraphEditor) -> Stored | None:
    """A bias with one number for each channel, or for all; None for any other."""
    stored = _stored(value, 0, width, editor)
    if stored is None or any(extent != 1 for extent in stored.data.shape[:-1]):
        return None
    if stored.data.size not in (1, width):
        return None
    return replace(stored, data=np.broadcast_to(stored.data.reshape(-1), (width,)))


def tail_of(
    operator: Operator, editor: GraphEditor
) -> tuple[tuple[Operator, ...], Operator | None]:
    """The functions of one value behind a contraction, and the quantize at their end."""
    followers: list[Operator] = []
    value = operator.outputs[0]
    while (reader := editor.only_reader(value)) is not None:
        if reader.kind is Kind.QUANTIZE and all(
            name in editor.constants and editor.constants[name].size == 1
            for name in reader.operands[1:]
        ):
            return tuple(followers), reader
        if reader.kind not in _FOLLOWERS:
            break
        followers.append(reader)
        value = reader.outputs[0]
    return tuple(followers), None


def _widened(value: str, family: Sequence[Sibling], stem: str, editor: GraphEditor) -> str:
    """A value like one of the first sibling, as wide as all of them."""
    first, held = family[0], editor.types[value]
    shape = list(held.shape)
    shape[first.channel] = sum(item.width for item in family)
    return editor.add_value(stem, TensorType(held.dtype, tuple(shape)))


def _joined_weights(
    family: Sequence[Sibling], stem: str, editor: GraphEditor
) -> tuple[str, tuple[Operator, ...]]:
    parts = [item.weights for item in family]
    data = np.concatenate([part.data for part in parts], axis=family[0].axis)
    return _keep(f"{stem}.weights", data, parts, family[0].axis, editor)


def _joined_bias(
    family: Sequence[Sibling], stem: str, editor: GraphEditor
) -> tuple[str, tuple[Operator, ...]]:
    """The biases side by side; zeros where a sibling has none."""
    given = next((item.bias for item in family if item.bias is not None), None)
    if given is None:
        return "", ()
    parts = [item.bias or _no_bias(given, item.width) for item in family]
    data = np.concatenate([part.data for part in parts])
    return _keep(f"{stem}.bias", data, parts, 0, editor)


def _no_bias(like: Stored, width: int) -> Stored:
    scale = None if like.scale is None else np.ones(width, like.scale.dtype)
    zero = None if like.zero is None else np.zeros(width, like.zero.dtype)
    return Stored(np.zeros(width, like.data.dtype), scale, zero)


def _keep(
    stem: str, data: Array, parts: Sequence[Stored], axis: int, editor: GraphEditor
) -> tuple[str, tuple[Operator, ...]]:
    """Add a joined constant, and its dequantize where it is quantised."""
    name = editor.add_constant(stem, data)
    scales = [part.scale for part in parts if part.scale is not None]
    if not scales:
        return name, ()
    zeros = [part.zero for part in parts if part.zero is not None]
    scale = np.concatenate(scales)
    parameters = [editor.add_constant(f"{stem}.scale", scale)]
    if zeros:
        parameters.append(editor.add_constant(f"{stem}.zero", np.concatenate(zeros)))
    restored = editor.add_value(f"{stem}.float", TensorType(DType.of(scale.dtype), data.shape))
    dequantize = Operator(
        editor.fresh(f"{stem}.dequantize"),
        Kind.DEQUANTIZE,
        (name, *parameters),
        (restored,),
        {"axis": axis},
    )
    return restored, (editor.put(dequantize),)


def _joined_quantize(
    family: Sequence[Sibling], value: str, stem: str, editor: GraphEditor
) -> Operator:
    """One quantize for all: by channel where the siblings' scales differ."""
    ends = [item.quantize for item in family if item.quantize is not None]
    first = ends[0]
    result = _widened(first.outputs[0], family, f"{stem}.stored", editor)
    columns = [
        [editor.constants[end.operands[place]].reshape(-1) for end in ends]
        for place in range(1, len(first.operands))
    ]
    if all(np.array_equal(column[0], other) for column in columns for other in column):
        return replace(
            first,
            name=editor.fresh(f"{stem}.quantize"),
            inputs=(value, *first.inputs[1:]),
            outputs=(result,),
        )
    widths = [item.width for item in family]
    parameters = [
        editor.add_constant(f"{stem}.{word}", np.repeat(np.concatenate(column), widths))
        for word, column in zip(("steps", "zeros"), columns, strict=False)
    ]
    return Operator(
        editor.fresh(f"{stem}.quantize"),
        Kind.QUANTIZE,
        (value, *parameters),
        (result,),
        {"axis": family[0].channel},
    )
