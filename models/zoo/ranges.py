"""Nominal ranges where a vendor's compiler puts them: at the ends of what a device fuses."""

from __future__ import annotations

from collections.abc import Mapping

from stages.compiler.quantization import Quantization, Range
from stages.hardware.spec import HardwareSpec
from stages.quantizer.placement import simplified, stored_values
from stages.recipe.graph import Graph
from stages.tensors import Array

NOMINAL = Range(-8.0, 8.0)
"""One range for all: concatenation, pooling and addition need no change of scale then, which
vendors' tools arrange too. For timing, what counts is which values are int8."""


def fused_quantization(
    graph: Graph, constants: Mapping[str, Array], spec: HardwareSpec
) -> Quantization:
    """One range for every float activation, but for those that stay within a fused group."""
    stored = stored_values(graph, simplified(graph, constants, spec), spec)
    return Quantization(dict.fromkeys(stored, NOMINAL), frozenset())
