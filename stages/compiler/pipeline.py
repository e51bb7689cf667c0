"""The compiler as one list: the passes in their order, then memory, then emission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stages.compiler.draft import Pass, first_draft
from stages.compiler.interleaving import Interleaving
from stages.compiler.lora import Lora
from stages.compiler.passes.absorb_shifts import AbsorbShifts
from stages.compiler.passes.canonicalize import Canonicalize
from stages.compiler.passes.compensate import CompensateRounding
from stages.compiler.passes.defer_softmax import DeferSoftmax
from stages.compiler.passes.equalize_channels import EqualizeChannels
from stages.compiler.passes.factor_gates import FactorGates
from stages.compiler.passes.fold_affine import FoldAffine
from stages.compiler.passes.fold_strides import FoldStrides
from stages.compiler.passes.fuse import Fuse, PrivatizeDequantize
from stages.compiler.passes.integer_forms import (
    QuantizeConcat,
    QuantizeConstants,
    QuantizeTables,
)
from stages.compiler.passes.integer_masks import QuantizeMasks
from stages.compiler.passes.lower_logic import LowerLogic
from stages.compiler.passes.lower_norms import LowerLayerNorm
from stages.compiler.passes.masks import ShareEqual, SimplifyMasks
from stages.compiler.passes.mean_first import MeanFirst
from stages.compiler.passes.merge_lora import MergeLora
from stages.compiler.passes.precision import Precision
from stages.compiler.passes.quantize import QuantizeActivations, QuantizeWeights
from stages.compiler.passes.recognize import Recognize
from stages.compiler.passes.scales import AbsorbScales, HoistScales
from stages.compiler.passes.sink_dequantize import SinkDequantize
from stages.compiler.passes.small_gemms import SmallGemms
from stages.compiler.progress import (
    Progress,
    begin_decisions,
    decide,
    in_text_order,
    rewrite,
)
from stages.compiler.quantization import ActivationScales, Quantization
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import Plan
from stages.plan.packing import Packing, pack
from stages.recipe.decisions import Recipe
from stages.recipe.explanation import Weighed
from stages.recipe.graph import Graph
from stages.recipe.verify import verify
from stages.tensors import Array


def simplifications() -> tuple[Pass, ...]:
    """The passes with which every compile begins, in order; `foldings` follow them."""
    return (
        Canonicalize(),
        SimplifyMasks(),
        Recognize(),
        ShareEqual(),
        FactorGates(),
        FoldStrides(),
    )


def foldings() -> tuple[Pass, ...]:
    """The passes after which the graph is as it is quantised."""
    return (FoldAffine(), MeanFirst())


def rewrites(
    quantization: Quantization | None,
    sample: Mapping[str, Array] | None,
    lora: Lora = Lora.KEEP,
) -> tuple[Pass, ...]:
    """The passes that may read and change constants, in order."""
    return (
        MergeLora(lora),
        *simplifications(),
        *([HoistScales()] if quantization is None else []),
        *foldings(),
        *_equalizing(quantization),
        *([QuantizeActivations(quantization)] if quantization is not None else []),
        QuantizeConcat(),
        QuantizeTables(),
        SinkDequantize(),
        AbsorbScales(),
        *([AbsorbShifts()] if _may_shift(quantization) else []),
        *([QuantizeWeights(quantization)] if quantization is not None else []),
        *([CompensateRounding(sample)] if sample is not None else []),
        QuantizeMasks(),
        LowerLayerNorm(),
        *([DeferSoftmax()] if quantization is not None else []),
        QuantizeConstants(),
        LowerLogic(),
        SmallGemms(),
        PrivatizeDequantize(),
        Fuse(),
        Precision(),
    )


def _may_shift(quantization: Quantization | None) -> bool:
    """Whether zero points are the compiler's to choose: a model that comes quantised keeps its
    numbers, and symmetric scales have none."""
    return (
        quantization is not None
        and bool(quantization.ranges)
        and quantization.activations is ActivationScales.ASYMMETRIC
    )


def _equalizing(quantization: Quantization | None) -> tuple[Pass, ...]:
    if quantization is None or not quantization.channel_factors:
        return ()
    return (EqualizeChannels(quantization),)


def decisions() -> tuple[Pass, ...]:
    """The passes behind them, in order. They read no constant's elements, and make no constant:
    what they decide holds for all weights of the same structure."""
    # Not needed where decisions are reused.
    from stages.compiler.passes.late_pieces import LatePieces
    from stages.compiler.passes.layout import AssignLayouts
    from stages.compiler.passes.order import Order
    from stages.compiler.passes.separate_reads import SeparateReads
    from stages.compiler.passes.view_concats import ViewConcats
    from stages.compiler.passes.view_slices import ViewSlices

    return (
        Order(),
        AssignLayouts(),
        SeparateReads(),
        ViewSlices(),
        ViewConcats(),
        LatePieces(),
    )


@dataclass(frozen=True, slots=True)
class Decided:
    """A whole recipe and its plan, with what its plan's constants are made of, and its jitter-free
    cycles. `progress` is the recipe's: its draft has tiles and allocations."""

    progress: Progress
    plan: Plan
    packings: tuple[Packing, ...]
    cycles: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """A recipe, its plan, the weights that the plan's constants name, the constants of the graph
    (for the export to ONNX), what was weighed, and what the weights are made of."""

    recipe: Recipe
    plan: Plan
    weights: Mapping[str, Array]
    constants: Mapping[str, Array]
    weighed: tuple[Weighed, ...] = ()
    packings: tuple[Packing, ...] = ()


def compile_graph(
    graph: Graph,
    constants: Mapping[str, Array],
    spec: HardwareSpec,
    quantization: Quantization | None = None,
    sample: Mapping[str, Array] | None = None,
    interleaving: Interleaving = Interleaving.CASCADES,
) -> Compiled:
    """Compile a graph for a device, in int8 where a quantisation gives ranges, and with biases
    corrected for the rounding of weights where a sample input is given.

    Raises:
        CompileError: no recipe for this device exists; the message says why.
    """
    progress = begin(graph, constants, spec, interleaving)
    progress = rewrite(progress, rewrites(quantization, sample), spec)
    return completed(decide_all(begin_decisions(progress, spec), decisions(), spec))


def begin(
    graph: Graph,
    constants: Mapping[str, Array],
    spec: HardwareSpec,
    interleaving: Interleaving = Interleaving.CASCADES,
) -> Progress:
    """Where a compile begins: a graph about which nothing is decided."""
    return Progress(in_text_order(first_draft(graph, constants, spec)), interleaving=interleaving)


def decide_all(progress: Progress, steps: Sequence[Pass], spec: HardwareSpec) -> Decided:
    """The decisions that are left, then memory, then the plan.

    Raises:
        CompileError: no recipe for this device exists; the message says why.
    """
    # Not needed where decisions are reused: memory, tiles, cascades, emission.
    from stages.compiler.plans import plan_layers

    progress = decide(progress, steps, spec)
    planned = plan_layers(progress.draft, spec, progress.interleaving)
    verify(planned.draft.recipe)
    whole = replace(progress, draft=planned.draft)
    return Decided(whole, planned.plan, planned.packings, planned.cycles)


def completed(decided: Decided) -> Compiled:
    """The recipe, its plan and the packed weights."""
    draft = decided.progress.whole
    weights = pack(decided.packings, draft.constants, draft.recipe.layout)
    return Compiled(
        draft.recipe, decided.plan, weights, draft.constants, draft.weighed, decided.packings
    )
