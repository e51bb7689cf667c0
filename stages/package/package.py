"""A package in memory, and whether it was made for a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stages.errors import PackageError
from stages.hardware.spec import HardwareSpec
from stages.package.decisions import DecidedFacts
from stages.package.environment import CompileEnvironment
from stages.package.manifest import Manifest
from stages.plan.instructions import Plan
from stages.recipe.decisions import Recipe
from stages.recipe.explanation import Weighed
from stages.tensors import Array


@dataclass(frozen=True, slots=True)
class Package:
    """A recipe, its plan, the weights packed for the target, and what they were made from.

    `weights` holds an array for each of the plan's constants, by name: of the region's type and
    physical shape. `constants` are those of the recipe's graph, as it names them, for its export;
    `read_package` leaves them on the disk (see `read_constants`). `decided` is what can be used
    again for other weights, and says what of the recipe's constants is in each of the plan's.
    `explanation` is what the compiler weighed; it too stays on the disk (see `read_weighed`).
    `environment` is the machine at compile time; where it is None, writing looks.
    """

    recipe: Recipe
    plan: Plan
    weights: Mapping[str, Array]
    manifest: Manifest
    constants: Mapping[str, Array] = field(default_factory=dict, compare=False)
    explanation: tuple[Weighed, ...] = field(default=(), compare=False)
    decided: DecidedFacts = field(default_factory=DecidedFacts, compare=False)
    environment: CompileEnvironment | None = field(default=None, compare=False)


def require_spec(package: Package, spec: HardwareSpec) -> None:
    """Refuse a package that was made for another device, or for another text of its spec.

    Raises:
        PackageError: name, version or digest differ.
    """
    manifest = package.manifest
    made_for = (manifest.hardware, manifest.hardware_version, manifest.hardware_sha256)
    if made_for == (spec.name, spec.version, spec.digest):
        return
    if manifest.hardware != spec.name:
        problem = f"the package was made for {manifest.hardware}, not for {spec.name}"
    elif manifest.hardware_version != spec.version:
        problem = (
            f"the package was made for version {manifest.hardware_version} of {spec.name}, "
            f"the spec is version {spec.version}"
        )
    else:
        problem = (
            f"the spec of {spec.name} {spec.version} was changed since the package was made: "
            f"its sha256 was {manifest.hardware_sha256}, and is {spec.digest}"
        )
    raise PackageError(
        problem,
        where=f"model {manifest.model}",
        hint=f"compile again for this spec, or give the spec of {manifest.hardware} "
        f"{manifest.hardware_version} that it was made for",
    )
