"""Convolutions whose stride or kernel is beyond the device's: strides become channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.support import device_type, refusal
from stages.hardware.spec import HardwareSpec
from stages.recipe.explanation import Alternative, Weighed
from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.tensors import Array, DType, Shape, TensorType

_QUESTION = "strides"


@dataclass(frozen=True, slots=True)
class FoldStrides:
    """A convolution that the operator list refuses, with stride s, becomes one of stride 1 on an
    input whose s x s blocks lie in the channels (space to depth); a kernel of k taps needs
    ceil(k / s) then. The patches of a ViT become a 1 x 1 convolution so, and the windows of a
    Fourier transform, 256 long and 128 apart, a convolution of two taps.
    """

    name: str = "fold_strides"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Fold every refused convolution whose folded form the device takes."""
        editor = GraphEditor(draft)
        weighed: list[Weighed] = []
        for operator in draft.graph.operators:
            reason = _refusal(operator, editor, spec) if operator.kind is Kind.CONV else ""
            if reason:
                folded = _fold(operator, editor, spec)
                weighed.append(_explained(operator, reason, folded))
        return editor.finish().with_weighed(weighed)


def _explained(conv: Operator, reason: str, folded: Operator | None) -> Weighed:
    on_host = Alternative("host", None, reason)
    if folded is None:
        return Weighed(conv.name, _QUESTION, (on_host,), "host", reason)
    in_channels = Alternative("channels", None, "stride 1 on blocks that lie in the channels")
    return Weighed(conv.name, _QUESTION, (on_host, in_channels), "channels", reason)


def _refusal(operator: Operator, editor: GraphEditor, spec: HardwareSpec) -> str:
    """Why the device refuses the operator's shape: on its own float, or on int8 where it has
    none, since quantisation comes later."""
    types = [_in_device_type(editor.types[value], spec) for value in operator.operands]
    result = _in_device_type(editor.types[operator.outputs[0]], spec)
    return refusal(operator, types, result, spec)


def _in_device_type(tensor_type: TensorType, spec: HardwareSpec) -> TensorType:
    if tensor_type.dtype.is_float and spec.float_dtype is None:
        return TensorType(DType.I8, tensor_type.shape)
    return device_type(tensor_type, spec)


@dataclass(frozen=True, slots=True)
class _Axis:
    """One spatial axis: its stride, the taps of the folded kernel, zeros before the input, and
    the extent that the folded convolution reads, in blocks of `stride`."""

    stride: int
    taps: int
    begin: int
    blocks: int

    @property
    def extent(self) -> int:
        return self.blocks * self.stride


def _fold(conv: Operator, editor: GraphEditor, spec: HardwareSpec) -> Operator | None:
    """The convolution of stride 1 that stands for this one now; None where there is none."""
    x, weights = conv.inputs[:2]
    data = editor.constants.get(weights)
    shape = editor.types[x].shape
    plain = all(step == 1 for step in conv.integers("dilations")) and conv.integer("group") == 1
    if data is None or not plain or len(shape) > 4:
        return None
    strides = conv.integers("strides")
    pads = conv.integers("pads")
    rank = len(strides)
    extents = editor.types[conv.outputs[0]].shape[2:]
    kernel = data.shape[2:]
    axes = [
        _Axis(stride, -(-taps // stride), begin, extent - 1 + -(-taps // stride))
        for stride, taps, begin, extent in zip(strides, kernel, pads, extents, strict=False)
    ]
    attributes: dict[str, Attribute] = {
        **conv.attributes,
        "strides": (1,) * rank,
        "pads": (0,) * (2 * rank),
    }
    folded_type = TensorType(
        editor.types[x].dtype,
        (shape[0], shape[1] * int(np.prod(strides)), *(axis.blocks for axis in axes)),
    )
    stored = np.ascontiguousarray(_folded_weights(data, axes))
    name = editor.add_constant(f"{weights}.folded", stored)
    source = editor.add_value(f"{x}.folded", folded_type)
    folded = replace(conv, inputs=(source, name, *conv.inputs[2:]), attributes=attributes)
    if _refusal(folded, editor, spec):
        return None
    moves = _Moves(conv.name, editor)
    moved = moves.to_channels(moves.cropped(moves.padded(x, axes), axes), axes, source)
    assert moved == source
    editor.put(folded)
    return folded


def _folded_weights(weights: Array, axes: Sequence[_Axis]) -> Array:
    """[out, in, *kernel] with kernels filled up to whole blocks, the places within a block
    behind the input channels."""
    out, channels, *kernel = weights.shape
    filled = [(0, axis.taps * axis.stride - taps) for axis, taps in zip(axes, kernel, strict=True)]
    padded = np.pad(weights, [(0, 0), (0, 0), *filled])
    split = [extent for axis in axes for extent in (axis.taps, axis.stride)]
    places = [3 + 2 * number for number in range(len(axes))]
    taps = [2 + 2 * number for number in range(len(axes))]
    blocks = padded.reshape(out, channels, *split).transpose(0, 1, *places, *taps)
    return blocks.reshape(out, -1, *(axis.taps for axis in axes))


class _Moves:
    """Appends the operators that bring blocks into the channels; none has a rank above 4."""

    def __init__(self, stem: str, editor: GraphEditor) -> None:
        self._stem = stem
        self._editor = editor

    def padded(self, x: str, axes: Sequence[_Axis]) -> str:
        """Zeros before the input, and behind it where the last block isn't whole."""
        shape = self._editor.types[x].shape
        begins = (0, 0, *(axis.begin for axis in axes))
        missing = (
            max(0, axis.extent - axis.begin - extent)
            for axis, extent in zip(axes, shape[2:], strict=True)
        )
        pads = (*begins, 0, 0, *missing)
        if not any(pads):
            return x
        grown = tuple(
            extent + before + after
            for extent, before, after in zip(
                shape, pads[: len(shape)], pads[len(shape) :], strict=True
            )
        )
        attributes: dict[str, Attribute] = {"pads": pads, "mode": "constant", "value": 0.0}
        return self._add(Kind.PAD, x, grown, attributes)

    def cropped(self, x: str, axes: Sequence[_Axis]) -> str:
        """Without what lies behind the last window."""
        shape = self._editor.types[x].shape
        kept = (*shape[:2], *(axis.extent for axis in axes))
        if kept == shape:
            return x
        box: dict[str, Attribute] = {
            "starts": (0,) * len(shape),
            "stops": kept,
            "steps": (1,) * len(shape),
        }
        return self._add(Kind.SLICE, x, kept, box)

    def to_channels(self, x: str, axes: Sequence[_Axis], result: str) -> str:
        """[n, c, *(blocks * stride)] as [n, c * strides, *blocks], in `result`."""
        n, channels, *_ = self._editor.types[x].shape
        last = axes[-1]
        if len(axes) == 1:
            x = self._swapped(x, (n * channels, last.blocks, last.stride, 1))
            return self._reshaped(x, self._editor.types[result].shape, result)
        first = axes[0]
        if last.stride > 1:
            x = self._swapped(x, (n * channels * first.extent, last.blocks, last.stride, 1))
        places = first.stride * last.stride
        x = self._swapped(x, (n * channels, first.blocks, places, last.blocks))
        return self._reshaped(x, self._editor.types[result].shape, result)

    def _swapped(self, x: str, shape: Shape) -> str:
        """The value in a shape of four axes, the middle two exchanged."""
        if shape[1] == 1 or shape[2] == 1:
            return x
        kept = shape if shape[3] > 1 else shape[:3]
        x = self._reshaped(x, kept, "")
        a, b, c, *d = kept
        permutation = (0, 2, 1, 3)[: len(kept)]
        return self._add(Kind.TRANSPOSE, x, (a, c, b, *d), {"permutation": permutation})

    def _reshaped(self, x: str, shape: Shape, result: str) -> str:
        if self._editor.types[x].shape == shape and not result:
            return x
        return self._add(Kind.RESHAPE, x, shape, {"shape": shape}, result)

    def _add(
        self, kind: Kind, x: str, shape: Shape, attributes: dict[str, Attribute], result: str = ""
    ) -> str:
        editor = self._editor
        name = result or editor.add_value(
            f"{self._stem}.{kind}", TensorType(editor.types[x].dtype, shape)
        )
        editor.put(Operator(editor.fresh(f"{name}.of"), kind, (x,), (name,), attributes))
        return name
