"""How near to the hardware's limit recipes come: latency, DRAM traffic and SRAM, in int8.

Part of `make bench`'s page of the compiler; `quality` makes one row. Simulated figures: the same on
every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from models.zoo import build
from models.zoo.device_io import with_device_types
from models.zoo.ranges import fused_quantization
from stages.calibration.measurements import Precision
from stages.compiler.draft import Draft
from stages.compiler.limit import DeviceLimit, device_limit
from stages.compiler.pipeline import compile_graph
from stages.device.work import work_of
from stages.evaluation.package_facts import memory_facts
from stages.hardware.cost import peak_cycles
from stages.hardware.spec import HardwareSpec
from stages.plan.costs import instruction_costs
from stages.plan.timing import plan_cycles
from stages.recipe.graph import Graph
from stages.recipe.onnx_import import import_model
from stages.tensors import Array

MODELS = ("resnet50", "mobilenet_v2", "bert_base_seq128", "vit_base", "ppocrv4_det")
HARDWARE = ("rk3588_npu", "ethos_u65_512")


@dataclass(frozen=True, slots=True)
class Quality:
    """One recipe: cycles of the nominal clock, and bytes."""

    model: str
    hardware: str
    cycles: int
    limit: DeviceLimit
    array_cycles: int
    moved_bytes: int
    sram_peak_bytes: int
    sram_bound_bytes: int
    groups: int
    fallbacks: int

    @property
    def over_limit(self) -> float:
        """Latency over the device limit."""
        return self.cycles / self.limit.cycles

    @property
    def over_roofline(self) -> float:
        """Latency over the plain roofline: multiply-accumulates at the array's peak, or bytes."""
        return self.cycles / max(1, self.array_cycles, self.limit.memory_cycles)


def load(model: str) -> tuple[Graph, dict[str, Array]]:
    """A network of the zoo with int8 outside, as vendors time theirs."""
    return import_model(with_device_types(build(model), Precision.INT8))


def quality(
    model: str, graph: Graph, constants: Mapping[str, Array], spec: HardwareSpec
) -> Quality:
    """The figures of a network's int8 recipe."""
    compiled = compile_graph(graph, constants, spec, fused_quantization(graph, constants, spec))
    plan = compiled.plan
    sram, _ = memory_facts(plan, spec)
    work = work_of(plan, instruction_costs(plan, spec), spec)
    return Quality(
        model=model,
        hardware=spec.name,
        cycles=plan_cycles(plan, spec),
        limit=device_limit(Draft(compiled.recipe, compiled.constants), plan, spec),
        array_cycles=peak_cycles(spec.tensor_core, work.macs_of(None)),
        moved_bytes=int(work.ddr_read.sum() + work.ddr_written.sum()),
        sram_peak_bytes=sram.peak_bytes,
        sram_bound_bytes=sram.lower_bound_bytes,
        groups=len(compiled.recipe.groups),
        fallbacks=len(compiled.recipe.fallbacks),
    )
