"""A network compiled as vendors' compilers do it: what published latencies were measured with.

Those compilers fold constants and affines, quantise, fuse what the chip's output stage does, choose
layouts, leave to the host what the chip refuses, and run one layer after the other. This compiler
rewrites further: strides into channels where a kernel is too large, concatenations and slices into
views, scales into weights, small matrix products, layer norms and masks into forms that the chip
does faster; and layers interleave. A device that is fitted to plans with all that would be fitted
to networks that nobody measured.
"""

from __future__ import annotations

from collections.abc import Mapping

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
from stages.compiler.pipeline import Compiled, begin, completed, decide_all
from stages.compiler.progress import begin_decisions, rewrite
from stages.compiler.quantization import Quantization
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Graph
from stages.tensors import Array


def compile_as_vendors_do(
    graph: Graph,
    constants: Mapping[str, Array],
    spec: HardwareSpec,
    quantization: Quantization | None = None,
) -> Compiled:
    """Compile a graph for a device layer by layer, with no rewrite that is this compiler's own; in
    int8 where a quantisation gives ranges.

    Raises:
        CompileError: no recipe for this device exists; the message says why.
    """
    progress = begin(graph, constants, spec, Interleaving.NOTHING)
    progress = rewrite(progress, rewrites(quantization), spec)
    return completed(decide_all(begin_decisions(progress, spec), decisions(), spec))


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


def decisions() -> tuple[Pass, ...]:
    """The passes behind them, in order."""
    return (Order(), AssignLayouts(), SeparateReads())
