"""The compiler as one list: the passes in their order, then memory, then emission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stages.compiler.cascade.strategy import Cascading, plan_layers
from stages.compiler.draft import Pass, first_draft
from stages.compiler.passes.canonicalize import Canonicalize
from stages.compiler.passes.compensate import CompensateRounding
from stages.compiler.passes.fold_affine import FoldAffine
from stages.compiler.passes.fuse import Fuse, PrivatizeDequantize
from stages.compiler.passes.layout import AssignLayouts
from stages.compiler.passes.order import Order
from stages.compiler.passes.precision import Precision
from stages.compiler.passes.quantize import QuantizeActivations, QuantizeWeights
from stages.compiler.passes.recognize import Recognize
from stages.compiler.passes.separate_reads import SeparateReads
from stages.compiler.passes.sink_dequantize import SinkDequantize
from stages.compiler.quantization import Quantization
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import Plan
from stages.recipe.decisions import Recipe
from stages.recipe.explanation import Weighed
from stages.recipe.graph import Graph
from stages.recipe.verify import verify
from stages.tensors import Array


def passes(
    quantization: Quantization | None, sample: Mapping[str, Array] | None
) -> tuple[Pass, ...]:
    """Every pass, in order."""
    return (
        Canonicalize(),
        Recognize(),
        FoldAffine(),
        *([QuantizeActivations(quantization)] if quantization is not None else []),
        SinkDequantize(),
        *([QuantizeWeights(quantization)] if quantization is not None else []),
        *([CompensateRounding(sample)] if sample is not None else []),
        PrivatizeDequantize(),
        Fuse(),
        Precision(),
        Order(),
        AssignLayouts(),
        SeparateReads(),
    )


@dataclass(frozen=True, slots=True)
class Compiled:
    """A recipe, its plan, the weights that the plan's constants name, and the constants of the
    graph (for the export to ONNX), and what was weighed."""

    recipe: Recipe
    plan: Plan
    weights: Mapping[str, Array]
    constants: Mapping[str, Array]
    weighed: tuple[Weighed, ...] = ()


def compile_graph(
    graph: Graph,
    constants: Mapping[str, Array],
    spec: HardwareSpec,
    quantization: Quantization | None = None,
    sample: Mapping[str, Array] | None = None,
    cascading: Cascading = Cascading.ON,
) -> Compiled:
    """Compile a graph for a device, in int8 where a quantisation gives ranges, and with biases
    corrected for the rounding of weights where a sample input is given.

    Raises:
        CompileError: no recipe for this device exists; the message says why.
    """
    draft = first_draft(graph, constants, spec)
    for step in passes(quantization, sample):
        draft = step.run(draft, spec)
        verify(draft.recipe, draft.constants)
    planned = plan_layers(draft, spec, cascading)
    final = planned.draft
    verify(final.recipe)
    return Compiled(
        final.recipe, planned.plan, planned.weights, final.constants, final.weighed
    )
