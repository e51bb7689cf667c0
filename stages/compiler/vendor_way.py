"""A network compiled as vendors' compilers do it: what published latencies were measured with.

Those compilers fold constants and affines, quantise, fuse what the chip's output stage does, choose
layouts, leave to the host what the chip refuses, and run one layer after the other. This compiler
rewrites further: strides into channels where a kernel is too large, concatenations and slices into
views, scales into weights, small matrix products, layer norms and masks into forms that the chip
does faster; and layers interleave. A device that is fitted to plans with all that would be fitted
to networks that nobody measured.

What one vendor's compiler is known to do otherwise, a spec says under `vendor_compiler`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stages.compiler.draft import Pass
from stages.compiler.interleaving import Interleaving
from stages.compiler.passes.canonicalize import Canonicalize
from stages.compiler.passes.fold_affine import FoldAffine
from stages.compiler.passes.fuse import Fuse, PrivatizeDequantize
from stages.compiler.passes.layout import AssignLayouts
from stages.compiler.passes.order import Order
from stages.compiler.passes.precision import Precision
from stages.compiler.passes.quantize import QuantizeActivations, QuantizeWeights
from stages.compiler.passes.recognize import Recognize
from stages.compiler.passes.separate_reads import SeparateReads
from stages.compiler.passes.sink_dequantize import SinkDequantize
from stages.compiler.passes.view_concats import ViewConcats
from stages.compiler.pipeline import Compiled, begin, completed, decide_all
from stages.compiler.progress import begin_decisions, rewrite
from stages.compiler.quantization import Quantization
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Graph
from stages.recipe.kinds import Kind
from stages.tensors import Array


def compile_as_vendors_do(
    graph: Graph,
    constants: Mapping[str, Array],
    spec: HardwareSpec,
    quantization: Quantization | None = None,
) -> Compiled:
    """Compile a graph for a device layer by layer, with no rewrite that is this compiler's own; in
    int8 where a quantisation gives ranges, made for the spec of `as_vendors_fuse`.

    Raises:
        CompileError: no recipe for this device exists; the message says why.
    """
    fused = as_vendors_fuse(spec)
    progress = begin(graph, constants, fused, Interleaving.NOTHING)
    progress = rewrite(progress, rewrites(quantization), fused)
    return completed(decide_all(begin_decisions(progress, fused), decisions(spec), fused))


def as_vendors_fuse(spec: HardwareSpec) -> HardwareSpec:
    """The spec with the output stage that its vendor's compiler makes use of; prices are the same.

    A plan made for it keeps the rules of `spec` too, whose output stage does more.
    """
    stage = spec.tensor_core.output_stage - spec.vendor_compiler.unfused
    return replace(spec, tensor_core=replace(spec.tensor_core, output_stage=stage))


def rewrites(quantization: Quantization | None) -> tuple[Pass, ...]:
    """The passes that may read and change constants, in order."""
    return (
        Canonicalize(),
        Recognize(),
        FoldAffine(),
        *([QuantizeActivations(quantization)] if quantization is not None else []),
        SinkDequantize(),
        *([QuantizeWeights(quantization)] if quantization is not None else []),
        PrivatizeDequantize(),
        Fuse(),
        Precision(),
    )


def decisions(spec: HardwareSpec) -> tuple[Pass, ...]:
    """The passes behind them, in order."""
    views = [ViewConcats()] if Kind.CONCAT in spec.vendor_compiler.views else []
    return (Order(), AssignLayouts(), SeparateReads(), *views)
