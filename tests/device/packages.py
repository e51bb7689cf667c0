"""Packages of plans made by hand."""

from __future__ import annotations

from collections.abc import Mapping

from stages.hardware.spec import HardwareSpec
from stages.package import DecidedFacts, Manifest, Package
from stages.plan.instructions import Plan
from stages.plan.packing import Whole
from stages.recipe.decisions import Engine, Group, Recipe, Target
from stages.recipe.graph import Graph
from stages.tensors import Array
from tests.device.specs import tiny_spec


def package_of(
    plan: Plan, weights: Mapping[str, Array], spec: HardwareSpec | None = None
) -> Package:
    """A package of a plan with one kernel, whose operators are the graph."""
    device = spec or tiny_spec()
    kernel = plan.kernels[0]
    constants = {binding.name for binding in plan.constants}
    graph = Graph(
        name="made by hand",
        inputs=tuple(name for name in kernel.parameters if name not in constants),
        outputs=kernel.results,
        constants=tuple(name for name in kernel.parameters if name in constants),
        types=kernel.types,
        operators=kernel.operators,
    )
    on_host = any(instruction.queue == "host" for instruction in plan.instructions)
    group = Group(
        plan.instructions[-1].group or "all",
        tuple(operator.name for operator in kernel.operators),
        Engine.HOST if on_host else Engine.TENSOR_CORE,
        "made so" if on_host else "",
    )
    recipe = Recipe(graph, Target(device.name, device.version), (group,))
    manifest = Manifest(
        model="made by hand",
        model_sha256="1" * 64,
        hardware=device.name,
        hardware_version=device.version,
        hardware_sha256=device.digest,
        compiler_version="0.1.0",
    )
    packings = tuple(Whole(binding.name, binding.name) for binding in plan.constants)
    return Package(recipe, plan, weights, manifest, decided=DecidedFacts(packings=packings))
