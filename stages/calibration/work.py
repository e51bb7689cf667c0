"""The size of a network in three numbers, for regressions that know nothing else of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stages.recipe.graph import Graph
from stages.recipe.operators import OperatorClass, signature
from stages.recipe.operators import macs as macs_of
from stages.tensors import Array


@dataclass(frozen=True, slots=True)
class Work:
    """Multiply-accumulates of convolutions and matrix products; elements of float constants; and
    elements of the results of convolutions and matrix products (the "activations" of Radosavovic
    et al., Designing Network Design Spaces, 2020, section 3)."""

    macs: int
    parameters: int
    activations: int


def work_of(graph: Graph, constants: Mapping[str, Array]) -> Work:
    """The work of a graph before anything was compiled."""
    macs = activations = 0
    for operator in graph.operators:
        if signature(operator.kind).operator_class is not OperatorClass.CONTRACTION:
            continue
        operands = [graph.types[name] if name else None for name in operator.inputs]
        results = [graph.types[name] for name in operator.outputs]
        macs += macs_of(operator, operands, results)
        activations += results[0].element_count
    parameters = sum(constants[name].size for name in constants if graph.types[name].dtype.is_float)
    return Work(macs, parameters, activations)
