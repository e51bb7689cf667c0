"""Data movement on integers: a dequantize moves behind what only moves its elements."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.patterns import scalar
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import TensorType

_MOVES = frozenset(
    {Kind.RESHAPE, Kind.TRANSPOSE, Kind.SLICE, Kind.EXPAND, Kind.IDENTITY, Kind.GATHER}
)


@dataclass(frozen=True, slots=True)
class SinkDequantize:
    """`move(dequantize(x))` becomes `dequantize(move(x))` where one scale holds for the whole
    tensor, and `quantize(dequantize(x))` of equal scales is x itself.

    A quantised embedding table is then gathered as integers, and reshapes and transposes between
    quantised operators never leave them; neither do a split, and a concat of values of one scale.
    """

    name: str = "sink_dequantize"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Sink in the order of the operators, so that a chain of moves is passed in one go."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            current = editor.operators.get(operator.name)
            if current is None:
                continue
            if current.kind in _MOVES:
                _sink(current, editor)
            elif current.kind is Kind.PAD:
                _sink_pad(current, editor)
            elif current.kind is Kind.CONCAT:
                _sink_concat(current, editor)
            elif current.kind is Kind.SPLIT:
                _sink_split(current, editor)
            elif current.kind is Kind.QUANTIZE:
                _cancel(current, editor)
        return editor.finish()


def _sink(move: Operator, editor: GraphEditor) -> None:
    source = _dequantize_of(move.inputs[0], editor)
    if source is not None:
        _restore(move, (source.inputs[0], *move.inputs[1:]), source, editor)


def _sink_pad(pad: Operator, editor: GraphEditor) -> None:
    """Zeros are padded as the zero point."""
    source = _dequantize_of(pad.inputs[0], editor)
    if source is None or (pad.word("mode") == "constant" and pad.number("value") != 0):
        return
    zero = scalar(editor, source.inputs[2]) if len(source.inputs) > 2 else 0.0
    if zero is None:
        return
    attributes = {**pad.attributes, "value": zero}
    _restore(replace(pad, attributes=attributes), (source.inputs[0],), source, editor)


def _sink_concat(concat: Operator, editor: GraphEditor) -> None:
    """Where all operands have one scale, as vendors' quantisers arrange."""
    sources = [_dequantize_of(value, editor) for value in concat.inputs]
    first, found = sources[0], [source for source in sources if source is not None]
    if first is None or len(found) < len(sources):
        return
    stored = [source.inputs[0] for source in found]
    same_types = len({editor.types[value].dtype for value in stored}) == 1
    if same_types and all(_same_parameters(first, source, editor) for source in found):
        _restore(concat, tuple(stored), first, editor)


def _sink_split(split: Operator, editor: GraphEditor) -> None:
    source = _dequantize_of(split.inputs[0], editor)
    if source is not None:
        _restore(split, (source.inputs[0], *split.inputs[1:]), source, editor)


def _dequantize_of(value: str, editor: GraphEditor) -> Operator | None:
    """The dequantize that makes a value, where one scale holds for the whole tensor."""
    source = editor.producer(value)
    if source is None or source.kind is not Kind.DEQUANTIZE or source.integer("axis") >= 0:
        return None
    return source


def _restore(
    move: Operator, inputs: tuple[str, ...], source: Operator, editor: GraphEditor
) -> None:
    """The move on integers, and a dequantize as `source` behind each of its results."""
    dtype = editor.types[source.inputs[0]].dtype
    moved = tuple(
        editor.add_value(f"{result}.stored", TensorType(dtype, editor.types[result].shape))
        for result in move.outputs
    )
    editor.put(replace(move, inputs=inputs, outputs=moved))
    for stored, result in zip(moved, move.outputs, strict=True):
        stem = move.name if len(moved) == 1 else result
        name = editor.fresh(f"{stem}.dequantize")
        operands = (stored, *source.inputs[1:])
        editor.put(Operator(name, Kind.DEQUANTIZE, operands, (result,), {"axis": -1}))


def _cancel(quantize: Operator, editor: GraphEditor) -> None:
    source = editor.producer(quantize.inputs[0])
    if source is None or source.kind is not Kind.DEQUANTIZE:
        return
    (result,) = quantize.outputs
    stored = source.inputs[0]
    same_type = editor.types[stored] == editor.types[result]
    if not same_type or not _same_parameters(source, quantize, editor):
        return
    editor.redirect(result, stored)
    if result in editor.outputs:
        editor.put(replace(quantize, kind=Kind.IDENTITY, inputs=(stored,), attributes={}))
    else:
        editor.drop(quantize.name)


def _same_parameters(first: Operator, second: Operator, editor: GraphEditor) -> bool:
    if first.attributes != second.attributes or len(first.inputs) != len(second.inputs):
        return False
    for one, other in zip(first.inputs[1:], second.inputs[1:], strict=True):
        if one == other:
            continue
        data = [editor.constants.get(name) for name in (one, other)]
        if data[0] is None or data[1] is None or not np.array_equal(data[0], data[1]):
            return False
    return True
