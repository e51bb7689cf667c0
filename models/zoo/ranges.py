"""Nominal ranges where a vendor's compiler puts them: at the ends of what a device fuses.

Between a contraction and the operators of its output stage nothing is rounded to int8: the
accumulator goes through bias, activation and residual, and is quantised once on its way out
(TensorRT's explicit and implicit quantisation, Vela and QNN alike).
"""

from __future__ import annotations

from collections.abc import Mapping

from stages.compiler.draft import GraphEditor, first_draft
from stages.compiler.passes.canonicalize import Canonicalize
from stages.compiler.passes.fold_affine import FoldAffine
from stages.compiler.passes.recognize import Recognize
from stages.compiler.quantization import Quantization, Range
from stages.compiler.support import CONTRACTIONS, POINTWISE
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Graph
from stages.recipe.kinds import Kind
from stages.tensors import Array

NOMINAL = Range(-8.0, 8.0)
"""One range for all: concatenation, pooling and addition need no change of scale then, which
vendors' tools arrange too. For timing, what counts is which values are int8."""


def fused_quantization(
    graph: Graph, constants: Mapping[str, Array], spec: HardwareSpec
) -> Quantization:
    """One range for every float activation, but for those that stay within a fused group."""
    draft = first_draft(graph, constants, spec)
    for step in (Canonicalize(), Recognize(), FoldAffine()):
        draft = step.run(draft, spec)
    editor = GraphEditor(draft)
    fused: set[str] = set()
    clamped: set[str] = set()
    for operator in draft.graph.operators:
        starts = operator.kind in CONTRACTIONS
        continues = operator.kind in POINTWISE and any(x in fused for x in operator.inputs)
        (value,) = operator.outputs[:1]
        ends = operator.kind in spec.tensor_core.output_ends
        if (starts or continues) and not ends and _continues(value, editor, spec):
            # Of two that meet in a sum the later one goes through; the other is stored for it.
            reader = editor.only_reader(value)
            fused.difference_update(reader.inputs if reader is not None else ())
            fused.add(value)
        elif operator.kind in POINTWISE and _is_clamped(value, editor):
            clamped.add(value)
    floats = {name for name, type_ in graph.types.items() if type_.dtype.is_float}
    stored = floats & set(draft.graph.types) - set(draft.constants) - fused - clamped
    ranges = {name: NOMINAL for name in graph.types if name in stored}
    return Quantization(ranges, frozenset())


def _is_clamped(value: str, editor: GraphEditor) -> bool:
    """Whether only a clamp reads it: TensorFlow Lite and QNN have relu and relu6 as a field of the
    operator before, whatever that is."""
    reader = editor.only_reader(value)
    return reader is not None and reader.kind in (Kind.RELU, Kind.CLIP)


def _continues(value: str, editor: GraphEditor, spec: HardwareSpec) -> bool:
    reader = editor.only_reader(value)
    return (
        reader is not None
        and reader.kind in POINTWISE
        and reader.kind in spec.tensor_core.output_stage
        and editor.types[reader.outputs[0]].shape == editor.types[value].shape
    )
