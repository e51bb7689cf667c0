"""Nominal ranges where a vendor's compiler puts them: at the ends of what a device fuses."""

from __future__ import annotations

from collections.abc import Mapping

from stages.compiler.draft import GraphEditor
from stages.compiler.quantization import Quantization, Range
from stages.compiler.support import POINTWISE
from stages.hardware.spec import HardwareSpec
from stages.quantizer.placement import simplified, stored_values
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
    draft = simplified(graph, constants, spec)
    editor = GraphEditor(draft)
    clamped = {
        operator.outputs[0]
        for operator in draft.graph.operators
        if operator.kind in POINTWISE and _is_clamped(operator.outputs[0], editor)
    }
    stored = [name for name in stored_values(graph, draft, spec) if name not in clamped]
    return Quantization(dict.fromkeys(stored, NOMINAL), frozenset())


def _is_clamped(value: str, editor: GraphEditor) -> bool:
    """Whether only a clamp reads it: TensorFlow Lite and QNN have relu and relu6 as a field of the
    operator before, whatever that is."""
    reader = editor.only_reader(value)
    return reader is not None and reader.kind in (Kind.RELU, Kind.CLIP)
