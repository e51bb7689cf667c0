"""Layer normalisation by the arithmetic that it is made of: where a device has no operator of that
name, or one that takes longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.passes.norm_forms import (
    QuantizedNorm,
    by_products,
    can_be_products,
    in_integers,
)
from stages.compiler.patterns import scalar
from stages.compiler.support import multiplies
from stages.hardware.spec import HardwareSpec
from stages.recipe.explanation import Alternative, Weighed
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType

if TYPE_CHECKING:
    from stages.compiler.small_gemms.weighing import Weigher

_NEEDED = (Kind.REDUCE_MEAN, Kind.REDUCE_SUM, Kind.SUB, Kind.MUL, Kind.ADD, Kind.SQRT,
           Kind.RECIPROCAL, Kind.QUANTIZE, Kind.DEQUANTIZE)  # fmt: skip
_WORTH_IT = 0.9
"""What the arithmetic may cost of the one operator: prices don't see that five groups wait for each
other."""


@dataclass(frozen=True, slots=True)
class LowerLayerNorm:
    """Layer normalisations of quantised values become several groups.

    Where the list lacks `layer_norm` but has its arithmetic in int16, all do. Where it has it and
    fp16 too, those do whose sums are done sooner by the tensor core, by the prices of the groups.
    """

    name: str = "lower_layer_norm"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Lower each layer_norm between dequantize and quantize."""
        if Kind.LAYER_NORM not in spec.operators:
            return _lower_all(draft, spec) if has_arithmetic(spec) else draft
        norms = [op for op in draft.graph.operators if op.kind is Kind.LAYER_NORM]
        if not norms or not multiplies(spec, DType.I8, DType.F16):
            return draft
        from stages.compiler.small_gemms.weighing import Weigher

        return _lower_slow(draft, norms, Weigher(spec))


def has_arithmetic(spec: HardwareSpec) -> bool:
    """Whether the list has all that a layer normalisation is made of, in int16; its sums of squares
    aren't among f16's numbers."""
    return spec.float_dtype is not DType.F16 and all(
        kind in spec.operators and DType.I16 in spec.operators[kind].dtypes for kind in _NEEDED
    )


def _lower_all(draft: Draft, spec: HardwareSpec) -> Draft:
    editor = GraphEditor(draft)
    norms = [op for op in draft.graph.operators if op.kind is Kind.LAYER_NORM]
    lowered = [found for op in norms if (found := _quantized(op, editor)) is not None]
    for found in lowered:
        in_integers(found)
    reason = f"layer_norm isn't in the operator list of {spec.name}, its arithmetic is"
    ways = (
        Alternative("host", None, "one operator, and both ways over the link"),
        Alternative("arithmetic", None, "four groups, int16 between them"),
    )
    return editor.finish().with_weighed(
        Weighed(found.norm.name, "layer_norm", ways, "arithmetic", reason) for found in lowered
    )


def _lower_slow(draft: Draft, norms: list[Operator], weigher: Weigher) -> Draft:
    editor, trial = GraphEditor(draft), GraphEditor(draft)
    weighed: list[Weighed] = []
    for norm in norms:
        found, other = _quantized(norm, editor), _quantized(norm, trial)
        if found is None or other is None or not can_be_products(found):
            continue
        reader = editor.only_reader(norm.outputs[0])
        assert reader is not None, "what is quantised behind has one reader"
        whole = weigher.cycles([found.source, norm, reader], editor)
        parts = weigher.cycles([*by_products(other), reader], trial)
        if parts is None:
            continue
        pays = whole is None or parts <= _WORTH_IT * whole
        if pays:
            by_products(found)
        weighed.append(_told(norm.name, whole, parts, pays))
    return editor.finish().with_weighed(weighed)


def _told(name: str, whole: int | None, parts: int, pays: bool) -> Weighed:
    """What was weighed for a norm, and what decided."""
    ways = (
        Alternative("one operator", whole, "as the list has it"),
        Alternative("products", parts, "five groups, rows summed by the tensor core"),
    )
    reason = f"five groups in a row have to cost {_WORTH_IT:.0%} of one at most"
    return Weighed(name, "layer_norm", ways, ways[pays].name, reason)


def _quantized(norm: Operator, editor: GraphEditor) -> QuantizedNorm | None:
    """A norm that reads a dequantize of one scale, has constant parameters, and is quantised."""
    x, *parameters = norm.inputs
    source = editor.producer(x)
    if source is None or source.kind is not Kind.DEQUANTIZE or source.integer("axis") >= 0:
        return None
    reader = editor.only_reader(norm.outputs[0])
    step = scalar(editor, source.inputs[1])
    if reader is None or reader.kind is not Kind.QUANTIZE or step is None:
        return None
    stored = editor.types[source.inputs[0]]
    if stored.dtype not in (DType.I8, DType.U8) or not stored.element_count:
        return None
    if any(name and name not in editor.constants for name in parameters):
        return None
    return QuantizedNorm(norm, source, step, editor)
