"""Writes a package so that no one ever sees half of one."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stages.errors import InputError
from stages.package.decisions import DecidedFacts, PlanFiles, print_decisions
from stages.package.digest import HashingSink
from stages.package.environment import (
    CompileEnvironment,
    observe_environment,
    print_environment,
)
from stages.package.explanation_file import print_explanation
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
    WEIGHTS,
    FileFacts,
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

Content = Callable[[HashingSink], object]


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

    All is written to a folder beside, flushed to the disk, and renamed: at every instant `folder`
    holds the old package or the new one, or (between two renames) nothing, never half of one. An
    interruption leaves the old one, and nothing else. Weights go from memory to the file without a
    copy. Equal packages give equal bytes, `compile_environment.json` aside.

    Raises:
        InputError: the folder can't be written, or holds something that isn't a package.
    """
    target = folder.absolute()
    token = secrets.token_hex(4)
    fresh = target.parent / f".{target.name}.{token}.partial"
    previous = target.parent / f".{target.name}.{token}.previous"
    try:
        _refuse_other_content(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            fresh.mkdir()
            written = _fill(fresh, contents, manifest, environment or observe_environment())
            _put_in_place(fresh, target, previous)
        finally:
            _remove(fresh)
            _drop_previous(previous, target)  # again: an interruption may have hit the first time
    except OSError as error:
        raise InputError(
            f"the package can't be written: {error}",
            where=str(folder),
            hint="choose another output folder, or make room and give yourself the right to write",
        ) from error
    return written


def _refuse_other_content(target: Path) -> None:
    """A folder that is neither empty nor a package isn't ours to replace, nor is a file."""
    is_package = (target / MANIFEST).is_file()
    if target.is_dir() and (is_package or not any(target.iterdir())):
        return
    for parent in target.parents:
        if parent.exists() and not parent.is_dir():
            raise InputError(
                f"the package can't be written: {parent} is no folder",
                where=str(target),
                hint="choose another output folder",
            )
    if target.exists() or target.is_symlink():
        raise InputError(
            "there is something else where the package should go",
            where=str(target),
            hint="choose another output folder, or move away what is there",
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
    files = {name: _write(fresh / name, writers[name]) for name in DIGESTED}
    whole = replace(manifest, recipe_sha256=files[RECIPE].sha256, files=files)
    _write(fresh / ENVIRONMENT, lambda sink: sink.write(print_environment(environment).encode()))
    _write(fresh / MANIFEST, lambda sink: sink.write(print_manifest(whole).encode()))
    _flush_folder(fresh)
    return whole


def _write(path: Path, content: Content) -> FileFacts:
    with path.open("xb") as file:
        sink = HashingSink(file)
        content(sink)
        file.flush()
        os.fsync(file.fileno())
    return sink.facts()


def _put_in_place(fresh: Path, target: Path, previous: Path) -> None:
    """Rename `fresh` to `target`; what was there goes to `previous`, and comes back on failure."""
    try:
        if target.exists():
            os.rename(target, previous)
        os.rename(fresh, target)
    except BaseException:
        if previous.exists() and not target.exists():
            os.rename(previous, target)
        raise
    finally:
        _drop_previous(previous, target)
    _flush_folder(target.parent)


def _drop_previous(previous: Path, target: Path) -> None:
    """The old package goes only where there's another in its place."""
    if target.exists():
        _remove(previous)


def _remove(folder: Path) -> None:
    """Remove a folder, if it's there; an interruption waits until it's gone."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _flush_folder(folder: Path) -> None:
    """Make renames and new names in a folder last, on systems that let folders be flushed."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
