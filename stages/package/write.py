"""Writes a package so that no one ever sees half of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stages.package.decisions import DecidedFacts, PlanFiles, print_decisions
from stages.package.environment import (
    CompileEnvironment,
    observe_environment,
    print_environment,
)
from stages.package.explanation_file import print_explanation
from stages.package.folder import Content, replace_folder, write_file
from stages.package.manifest import (
    CONSTANTS,
    DECISIONS,
    DIGESTED,
    ENVIRONMENT,
    EXPLANATION,
    MANIFEST,
    PLAN,
    PLAN_TEXT,
    RECIPE,
    STOPPED,
    WEIGHTS,
    Manifest,
    print_manifest,
)
from stages.package.package import Package
from stages.plan.binary import encode_plan
from stages.plan.instructions import Plan
from stages.plan.tensor_file import write_tensors
from stages.plan.text import print_plan
from stages.recipe.decisions import Recipe
from stages.recipe.explanation import Weighed
from stages.recipe.text import print_recipe
from stages.tensors import Array


@dataclass(frozen=True, slots=True)
class Contents:
    """What goes into the files of a package, the plan as files already."""

    recipe: Recipe
    plan: PlanFiles
    weights: Mapping[str, Array]
    constants: Mapping[str, Array]
    explanation: tuple[Weighed, ...] = ()
    decided: DecidedFacts = field(default_factory=DecidedFacts)


def write_package(folder: Path, package: Package) -> Manifest:
    """Write a package's folder: see `write_contents`.

    Raises:
        InputError: the folder can't be written, or holds something that isn't a package.
    """
    contents = Contents(
        package.recipe,
        plan_files(package.plan),
        package.weights,
        package.constants,
        package.explanation,
        package.decided,
    )
    return write_contents(folder, contents, package.manifest, package.environment)


def plan_files(plan: Plan) -> PlanFiles:
    """A plan in both of its forms."""
    return PlanFiles(print_plan(plan).encode(), encode_plan(plan))


def write_contents(
    folder: Path,
    contents: Contents,
    manifest: Manifest,
    environment: CompileEnvironment | None = None,
) -> Manifest:
    """Write a package's folder; returns its manifest, with the digests of the files.

    It takes the place of an old package whole or not at all (see `replace_folder`). Weights go from
    memory to the file without a copy. Equal packages give equal bytes, `compile_environment.json`
    aside.

    Raises:
        InputError: the folder can't be written, or holds something that isn't a package.
    """
    machine = environment or observe_environment()
    return replace_folder(
        folder,
        "package",
        (MANIFEST, STOPPED),
        lambda fresh: _fill(fresh, contents, manifest, machine),
    )


def _fill(
    fresh: Path, contents: Contents, manifest: Manifest, environment: CompileEnvironment
) -> Manifest:
    writers: dict[str, Content] = {
        RECIPE: lambda sink: sink.write(print_recipe(contents.recipe).encode()),
        PLAN_TEXT: lambda sink: sink.write(contents.plan.text),
        PLAN: lambda sink: sink.write(contents.plan.binary),
        WEIGHTS: lambda sink: write_tensors(sink, contents.weights),
        CONSTANTS: lambda sink: write_tensors(sink, contents.constants),
        EXPLANATION: lambda sink: sink.write(print_explanation(contents.explanation).encode()),
        DECISIONS: lambda sink: sink.write(print_decisions(contents.decided).encode()),
    }
    files = {name: write_file(fresh / name, writers[name]) for name in DIGESTED}
    whole = replace(manifest, recipe_sha256=files[RECIPE].sha256, files=files)
    write_file(
        fresh / ENVIRONMENT, lambda sink: sink.write(print_environment(environment).encode())
    )
    write_file(fresh / MANIFEST, lambda sink: sink.write(print_manifest(whole).encode()))
    return whole
