"""Products with a number: they vanish into weights, or into the scales of quantised values."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.patterns import scalar
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType

_MOVES = frozenset({Kind.RESHAPE, Kind.TRANSPOSE, Kind.SLICE})


@dataclass(frozen=True, slots=True)
class HoistScales:
    """A product with a number behind data movement, or behind a product of two computed matrices,
    goes into the weights of the contraction from which the data comes: the scale of attention
    scores ends in the projection of the queries. Values on the way change, so this runs only
    where nobody gave ranges for them.
    """

    name: str = "hoist_scales"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Hoist every product that finds weights to end in."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            current = editor.operators.get(operator.name)
            if current is not None and current.kind in (Kind.MUL, Kind.DIV):
                _hoist(current, editor)
        return editor.finish()


def _hoist(product: Operator, editor: GraphEditor) -> None:
    factor = _factor(product, editor)
    source = editor.producer(product.inputs[0])
    alone = editor.only_reader(product.inputs[0]) is product
    if factor is None or source is None or not alone or not _same_type(product, editor):
        return
    start = product.inputs[0]
    if source.kind is Kind.MATMUL and len(source.inputs) == 2:
        if source.inputs[1] in editor.constants:
            return
        start = source.inputs[0]
        if editor.only_reader(start) is not source:
            return
    elif source.kind not in _MOVES:
        return
    path = _path(start, editor)
    if path is None or not _scale_weights(path, factor, editor):
        return
    last = editor.operators[source.name]
    editor.drop(product.name)
    editor.put(replace(last, outputs=product.outputs))


def _factor(product: Operator, editor: GraphEditor) -> float | None:
    number = scalar(editor, product.inputs[1])
    if number is None or not np.isfinite(number) or number == 0:
        return None
    return number if product.kind is Kind.MUL else 1 / number


def _same_type(product: Operator, editor: GraphEditor) -> bool:
    return editor.types[product.inputs[0]] == editor.types[product.outputs[0]]


@dataclass(frozen=True, slots=True)
class _Path:
    """A contraction with constant weights, and which of its output channels lead to a value."""

    contraction: str
    columns: tuple[int, int]


def _path(value: str, editor: GraphEditor) -> _Path | None:
    """The contraction from which data movement alone leads to a value."""
    producer = editor.producer(value)
    columns: tuple[int, int] | None = None
    while producer is not None and producer.kind in _MOVES:
        (value,) = producer.inputs
        if producer.kind is Kind.SLICE:
            if columns is not None:
                return None
            columns = _own_columns(producer, editor)
            if columns is None:
                return None
        elif editor.only_reader(value) is not producer:
            return None
        producer = editor.producer(value)
        if columns is not None and (producer is None or producer.kind is not Kind.MATMUL):
            return None
    if producer is None or producer.kind is not Kind.MATMUL:
        return None
    weights = editor.constants.get(producer.inputs[1])
    if weights is None or not DType.of(weights.dtype).is_float:
        return None
    if len(producer.inputs) > 2 and producer.inputs[2] not in editor.constants:
        return None
    return _Path(producer.name, columns or (0, weights.shape[-1]))


def _own_columns(cut: Operator, editor: GraphEditor) -> tuple[int, int] | None:
    """The last axis' range that only this slice of a value reads; None where others read it."""
    (value,) = cut.inputs
    shape = editor.types[value].shape
    if value in editor.outputs:
        return None
    starts, stops = cut.integers("starts"), cut.integers("stops")
    if any(step != 1 for step in cut.integers("steps")):
        return None
    if starts[:-1] != (0,) * (len(shape) - 1) or stops[:-1] != shape[:-1]:
        return None
    for name in editor.readers[value]:
        reader = editor.operators[name]
        if reader is cut or reader.name == cut.name:
            continue
        if reader.kind is not Kind.SLICE or reader.integers("steps")[-1] < 1:
            return None
        low, high = reader.integers("starts")[-1], reader.integers("stops")[-1]
        if low < stops[-1] and starts[-1] < high:
            return None
    return starts[-1], stops[-1]


def _scale_weights(path: _Path, factor: float, editor: GraphEditor) -> bool:
    contraction = editor.operators[path.contraction]
    start, stop = path.columns
    inputs = [contraction.inputs[0]]
    for name in contraction.inputs[1:]:
        data = np.asarray(editor.constants[name])
        width = editor.types[contraction.outputs[0]].shape[-1]
        wide = np.array(np.broadcast_to(data, (*data.shape[:-1], width)), np.float64)
        wide[..., start:stop] *= factor
        with np.errstate(over="ignore"):
            scaled = wide.astype(data.dtype)
        if not np.isfinite(scaled).all():
            return False
        inputs.append(editor.add_constant(name, scaled))
    editor.put(replace(contraction, inputs=tuple(inputs)))
    return True


@dataclass(frozen=True, slots=True)
class AbsorbScales:
    """`dequantize(x, s) * c` becomes `dequantize(x, s * c)`; and a value that is dequantised,
    quantised again with another scale and dequantised stays as it was stored: a second rounding
    only loses."""

    name: str = "absorb_scales"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Absorb in the order of the operators."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            current = editor.operators.get(operator.name)
            if current is None:
                continue
            if current.kind in (Kind.MUL, Kind.DIV):
                _absorb(current, editor)
            elif current.kind is Kind.QUANTIZE:
                keep_stored(current, editor)
        return editor.finish()


def _absorb(product: Operator, editor: GraphEditor) -> None:
    factor = _factor(product, editor)
    source = editor.producer(product.inputs[0])
    if factor is None or factor < 0 or source is None or source.kind is not Kind.DEQUANTIZE:
        return
    scale = editor.constants.get(source.inputs[1])
    if scale is None or not _same_type(product, editor):
        return
    with np.errstate(over="ignore", under="ignore"):
        scaled = (np.asarray(scale, np.float64) * factor).astype(scale.dtype)
    if not np.isfinite(scaled).all() or not np.asarray(scaled).all():
        return
    name = editor.add_constant(f"{product.name}.scale", scaled)
    inputs = (source.inputs[0], name, *source.inputs[2:])
    editor.put(Operator(product.name, Kind.DEQUANTIZE, inputs, product.outputs, source.attributes))


def keep_stored(quantize: Operator, editor: GraphEditor) -> None:
    """Let those that read what is quantised a second time read what was stored the first time."""
    source = editor.producer(quantize.inputs[0])
    (stored,) = quantize.outputs
    if source is None or source.kind is not Kind.DEQUANTIZE or stored in editor.outputs:
        return
    first, second = editor.types[source.inputs[0]].dtype, editor.types[stored].dtype
    readers = [editor.operators[name] for name in editor.readers[stored]]
    whole = all(reader.kind is Kind.DEQUANTIZE and reader.inputs[0] == stored for reader in readers)
    if first is not second or not readers or not whole:
        return
    for reader in readers:
        editor.put(
            replace(
                reader,
                inputs=(source.inputs[0], *source.inputs[1:]),
                attributes=source.attributes,
            )
        )
    editor.drop(quantize.name)
