"""What each step of the compiler gains alone, and all together, over a network as it is exported.

*As exported*: every operator a group of its own (with the change of number format that it ends
in), values row-major wherever an operator takes them so, no cascades, and nothing side by side: a
transfer waits for the compute before it, and compute for the transfers. Each step alone is put on
that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from models.zoo.ranges import NOMINAL, fused_quantization
from stages.compiler.cascading import Cascading
from stages.compiler.draft import Draft, Pass
from stages.compiler.layout.choices import Choices
from stages.compiler.layout.network import network
from stages.compiler.layout.prices import LayoutPrices
from stages.compiler.layout.rewrite import Rewriting
from stages.compiler.passes.fuse import Fuse
from stages.compiler.passes.layout import AssignLayouts
from stages.compiler.pipeline import begin, decide_all, decisions, rewrites
from stages.compiler.progress import begin_decisions, rewrite
from stages.compiler.quantization import Quantization
from stages.errors import CompileError
from stages.hardware.spec import HardwareSpec, SyncMode
from stages.plan.timing import plan_cycles
from stages.quantizer.placement import simplified
from stages.recipe.graph import Graph
from stages.recipe.kinds import Kind
from stages.tensors import ROW_MAJOR, Array

_FORMATS = frozenset({Kind.QUANTIZE, Kind.CAST})


@dataclass(frozen=True, slots=True)
class Steps:
    """Which steps a compile takes."""

    fusion: bool
    layouts: bool
    cascades: bool
    overlap: bool


NONE = Steps(False, False, False, False)
EACH: Mapping[str, Steps] = {
    "as exported": NONE,
    "fusion": replace(NONE, fusion=True),
    "layouts": replace(NONE, layouts=True),
    "cascades": replace(NONE, cascades=True),
    "overlap": replace(NONE, overlap=True),
    "all": Steps(True, True, True, True),
}


@dataclass(frozen=True, slots=True)
class OriginalLayouts:
    """Row-major wherever an operator takes it; a relayout stands before and behind the others."""

    name: str = "original_layouts"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """The draft with the least changed layouts."""
        choices = Choices(spec, draft.graph.types, frozenset(draft.constants))
        found = network(draft, choices, LayoutPrices(spec))
        chosen = [ROW_MAJOR if ROW_MAJOR in options else options[0] for options in found.choices]
        return Rewriting(draft, choices, chosen).run()


def cycles(
    graph: Graph, constants: Mapping[str, Array], spec: HardwareSpec, steps: Steps
) -> int | None:
    """Jitter-free cycles in int8 with these steps; None where no recipe exists without the others.

    Without fusion each operator's result is rounded to int8, with it what a fused group leaves.
    """
    if steps.fusion:
        quantization = fused_quantization(graph, constants, spec)
    else:
        quantization = every_value(graph, constants, spec)
    if not steps.overlap:
        spec = replace(spec, driver=replace(spec.driver, sync_mode=SyncMode.STRICT))
    cascading = Cascading.ON if steps.cascades else Cascading.OFF
    progress = begin(graph, constants, spec, cascading)
    first = tuple(_fusion(step, steps) for step in rewrites(quantization, None))
    then = tuple(_layouts(step, steps) for step in decisions())
    try:
        progress = begin_decisions(rewrite(progress, first, spec), spec)
        return plan_cycles(decide_all(progress, then, spec).plan, spec)
    except CompileError:
        return None


def every_value(graph: Graph, constants: Mapping[str, Array], spec: HardwareSpec) -> Quantization:
    """A nominal range for every float activation."""
    draft = simplified(graph, constants, spec)
    floats = [
        name
        for name, type_ in graph.types.items()
        if type_.dtype.is_float and name in draft.graph.types and name not in draft.constants
    ]
    return Quantization(dict.fromkeys(floats, NOMINAL), frozenset())


def _fusion(step: Pass, steps: Steps) -> Pass:
    return Fuse(follow=_FORMATS) if isinstance(step, Fuse) and not steps.fusion else step


def _layouts(step: Pass, steps: Steps) -> Pass:
    return OriginalLayouts() if isinstance(step, AssignLayouts) and not steps.layouts else step
