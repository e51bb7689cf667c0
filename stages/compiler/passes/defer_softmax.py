"""Softmax without its division: the product behind it divides instead, a column for each row."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from stages.compiler.arithmetic import Arithmetic
from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.rests import constant_parameters, range_parameters
from stages.compiler.support import multiplies
from stages.hardware.spec import HardwareSpec
from stages.recipe.explanation import Alternative, Weighed
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType

_WORTH_IT = 0.9
"""What the parts may cost of the one operator: prices don't see that groups wait for each other."""
_LARGEST = 2.0**15
"""Below f16's largest number, for the sums of a row and of its products with the values."""
_LONGEST_ROW = 2**14
"""Of the sums of longer ones the reciprocals aren't among f16's normal numbers."""
_MOST_HALVINGS = 14


@dataclass(frozen=True, slots=True)
class DeferSoftmax:
    """`softmax(x) @ v` of quantised values becomes `(e @ v) / (e @ 1)` with `e = exp(x - max(x))`,
    which is within (0, 1] whatever x is: the tensor core sums the rows, and the division acts on
    the result, which has fewer columns (Dao, "FlashAttention-2", 2023, section 3.1).

    Only where the arithmetic is in the operator list and, by the prices of the groups, is done
    sooner. Each row's largest e takes the last step of int8, so a row is as finely divided as a
    softmax of that row alone could be. What the product sums up is as many values as a row is
    long: where that could leave f16, e is read in units of a power of two, which both products
    share.
    """

    name: str = "defer_softmax"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Weigh each softmax that a product alone reads."""
        norms = [op for op in draft.graph.operators if op.kind is Kind.SOFTMAX]
        listed = Kind.SOFTMAX_NUMERATOR in spec.operators
        if not norms or not listed or not multiplies(spec, DType.I8, DType.F16):
            return draft
        from stages.compiler.small_gemms.weighing import Weigher

        editor, trial, weigher = GraphEditor(draft), GraphEditor(draft), Weigher(spec)
        weighed: list[Weighed] = []
        for norm in norms:
            found, other = _attention(norm, editor), _attention(norm, trial)
            if found is None or other is None:
                continue
            whole = weigher.cycles(found.members, editor)
            parts = weigher.cycles(_defer(other, trial), trial)
            if whole is None or parts is None:
                continue
            pays = parts <= _WORTH_IT * whole
            if pays:
                _defer(found, editor)
            weighed.append(_told(norm.name, whole, parts, pays))
        return editor.finish().with_weighed(weighed)


@dataclass(frozen=True, slots=True)
class _Attention:
    """A softmax over the last axis between quantised values, and the product that alone reads it
    with the quantize behind."""

    source: Operator
    softmax: Operator
    stored: Operator
    restored: Operator
    product: Operator
    result: Operator
    halvings: int

    @property
    def members(self) -> list[Operator]:
        """All of it, in order."""
        return [self.source, self.softmax, self.stored, self.restored, self.product, self.result]


def _attention(softmax: Operator, editor: GraphEditor) -> _Attention | None:
    """What stands around a softmax, where it has that form."""
    source = editor.producer(softmax.inputs[0])
    rank = editor.types[softmax.inputs[0]].rank
    if source is None or source.kind is not Kind.DEQUANTIZE or rank < 2:
        return None
    if softmax.integer("axis") != rank - 1 or constant_parameters(source, editor) is None:
        return None
    if editor.types[source.inputs[0]].dtype is not DType.I8:
        return None
    chain = [softmax]
    for kind in (Kind.QUANTIZE, Kind.DEQUANTIZE, Kind.MATMUL, Kind.QUANTIZE):
        reader = editor.only_reader(chain[-1].outputs[0])
        if reader is None or reader.kind is not kind or reader.inputs[0] != chain[-1].outputs[0]:
            return None
        chain.append(reader)
    _, stored, restored, product, result = chain
    if editor.types[stored.outputs[0]].dtype is not DType.I8 or len(product.operands) != 2:
        return None
    halvings = _halvings(editor.types[source.outputs[0]].shape[-1], product.inputs[1], editor)
    if halvings is None or product.inputs[1] == restored.outputs[0]:
        return None
    return _Attention(source, softmax, stored, restored, product, result, halvings)


def _halvings(count: int, values: str, editor: GraphEditor) -> int | None:
    """How often e is halved so that no sum of so many of the values leaves f16; None where nothing
    bounds them, or no number of times will do."""
    source = editor.producer(values)
    if not 1 <= count <= _LONGEST_ROW or source is None or source.kind is not Kind.DEQUANTIZE:
        return None
    scale = editor.constants.get(source.inputs[1])
    if scale is None or editor.types[source.inputs[0]].dtype not in (DType.I8, DType.U8):
        return None
    largest = count * 255 * float(np.max(scale))
    halvings = max(0, ceil(log2(largest / _LARGEST))) if largest > 0 else 0
    return halvings if halvings <= _MOST_HALVINGS else None


def _defer(found: _Attention, editor: GraphEditor) -> list[Operator]:
    """Replace it in the editor; returns the operators that stand there now."""
    whole = editor.types[found.source.outputs[0]]
    rows = (*whole.shape[:-1], 1)
    write = Arithmetic(found.softmax.name, whole.dtype, editor)
    numerator = write.op(
        Kind.SOFTMAX_NUMERATOR, (found.source.outputs[0],), whole.shape, {"axis": whole.rank - 1}
    )
    scale, zero = range_parameters(0.0, 1.0, DType.I8)
    unit = scale / np.float32(2**found.halvings)
    numerator = write.rested_in(unit, numerator, scale, zero)
    total = write.op(Kind.MATMUL, (numerator, write.column(whole.shape[-1], 1.0)), rows)
    share = write.op(Kind.RECIPROCAL, (total,), rows)
    (result,) = found.product.outputs
    product = editor.add_value(f"{found.product.name}.undivided", editor.types[result])
    for old in (found.softmax, found.stored, found.restored):
        editor.drop(old.name)
    write.last(found.product.name, Kind.MATMUL, (numerator, found.product.inputs[1]), product)
    write.last(editor.fresh(result), Kind.MUL, (product, share), result)
    return [found.source, *write.made, found.result]


def _told(name: str, whole: int, parts: int, pays: bool) -> Weighed:
    """What was weighed for a softmax, and what decided."""
    ways = (
        Alternative("one operator", whole, "softmax, and the product behind it"),
        Alternative("deferred", parts, "the product behind it divides; the tensor core sums rows"),
    )
    reason = f"the parts have to cost {_WORTH_IT:.0%} of the whole at most"
    return Weighed(name, "softmax", ways, ways[pays].name, reason)
