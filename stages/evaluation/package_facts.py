"""What a package costs and needs, read off its recipe and plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stages.hardware.cost import (
    compulsory_cycles,
    cycles_to_nanoseconds,
    peak_cycles,
)
from stages.hardware.spec import HardwareSpec
from stages.plan.costs import Role, instruction_costs
from stages.plan.instructions import Plan
from stages.plan.memory_map import memory_usage
from stages.plan.timing import run_costs
from stages.recipe.decisions import Recipe
from stages.recipe.kinds import Kind
from stages.tensors import DType


@dataclass(frozen=True, slots=True)
class Fallback:
    """A group on the host: its operators, why it is there, and what it costs."""

    group: str
    operators: tuple[str, ...]
    kinds: tuple[str, ...]
    reason: str
    priced_ns: int
    share: float


def fallbacks(recipe: Recipe, plan: Plan, spec: HardwareSpec) -> tuple[Fallback, ...]:
    """The groups on the host, dearest first.

    `share` is the group's part of all priced work (transfers, compute and host, overlapped or not).
    """
    costs = instruction_costs(plan, spec)
    spent: dict[str, int] = {}
    total = 0
    for instruction, role, cycles, launch in zip(
        plan.instructions, costs.roles, costs.cycles, costs.launch, strict=True
    ):
        total += cycles + launch
        if role is Role.HOST:
            spent[instruction.group] = spent.get(instruction.group, 0) + cycles + launch
    kinds = {operator.name: operator.kind for operator in recipe.graph.operators}
    found = [
        Fallback(
            group=group.name,
            operators=group.operators,
            kinds=tuple(str(kinds[name]) for name in group.operators),
            reason=group.reason,
            priced_ns=cycles_to_nanoseconds(spec, spent.get(group.name, 0)),
            share=round(spent.get(group.name, 0) / max(1, total), 6),
        )
        for group in recipe.fallbacks
    ]
    return tuple(sorted(found, key=lambda item: (-item.priced_ns, item.group)))


def fused_groups(recipe: Recipe) -> int:
    """Groups that run more than one operator on the device."""
    hosted = {group.name for group in recipe.fallbacks}
    return sum(
        1 for group in recipe.groups if len(group.operators) > 1 and group.name not in hosted
    )


def is_quantized(recipe: Recipe) -> bool:
    """Whether the model came with integer arithmetic."""
    return any(
        operator.kind in (Kind.QUANTIZE, Kind.DEQUANTIZE) for operator in recipe.graph.operators
    )


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """Highest use of one memory, and what is live at once at most (no placement needs less)."""

    memory: str
    peak_bytes: int
    lower_bound_bytes: int
    available_bytes: int


def memory_facts(plan: Plan, spec: HardwareSpec) -> tuple[MemoryFacts, ...]:
    """SRAM, then DDR."""
    facts = []
    for memory in (spec.sram, spec.ddr):
        usage = memory_usage(plan.buffers, memory)
        facts.append(
            MemoryFacts(memory.name, usage.peak_bytes, usage.bound_bytes, memory.usable_bytes)
        )
    return tuple(facts)


@dataclass(frozen=True, slots=True)
class Roofline:
    """The least time that the work can take: arithmetic at peak rate, or compulsory bytes (inputs,
    outputs and constants once each) at full bandwidth; and how far the jitter-free run is above."""

    compute_ns: int
    memory_ns: int
    calm_ns: int

    @property
    def bound_ns(self) -> int:
        """The larger of the two."""
        return max(1, self.compute_ns, self.memory_ns)

    @property
    def ratio(self) -> float:
        """The jitter-free latency over the bound."""
        return round(self.calm_ns / self.bound_ns, 3)


def roofline(plan: Plan, spec: HardwareSpec, macs: Mapping[DType, int]) -> Roofline:
    """The roofline of a plan that multiplies `macs` on the tensor core."""
    size_bytes = sum(
        binding.region.size_bytes for binding in (*plan.inputs, *plan.outputs, *plan.constants)
    )
    calm = int(run_costs(instruction_costs(plan, spec)).total_cycles[0])
    return Roofline(
        compute_ns=cycles_to_nanoseconds(spec, peak_cycles(spec.tensor_core, macs)),
        memory_ns=cycles_to_nanoseconds(spec, compulsory_cycles(spec, size_bytes)),
        calm_ns=cycles_to_nanoseconds(spec, calm),
    )
