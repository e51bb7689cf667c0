"""Reads a package, and believes none of its bytes before their digest is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stages.errors import PackageError, RecipeError
from stages.package.decisions import PlanFiles, StoredDecisions, read_decisions
from stages.package.digest import file_facts, load_hashed
from stages.package.environment import code_of
from stages.package.explanation_file import read_explanation
from stages.package.manifest import (
    CONSTANTS,
    DECISIONS,
    ENVIRONMENT,
    EXPLANATION,
    MANIFEST,
    PLAN,
    PLAN_TEXT,
    RECIPE,
    WEIGHTS,
    FileFacts,
    Manifest,
)
from stages.package.manifest_door import read_manifest
from stages.package.package import Package
from stages.plan.binary import decode_plan
from stages.plan.tensor_file import read_tensors
from stages.recipe.decisions import Recipe
from stages.recipe.explanation import Weighed
from stages.recipe.text import parse_recipe
from stages.tensors import Array

_REPACK = "compile the package again, or fetch a whole copy of it"


def read_package(folder: Path) -> Package:
    """The package in a folder. Its weights are views of one buffer, not to be written to.

    Raises:
        PackageError: there is no package, a file is missing, or a file isn't the one that was
            packed: the error names it with the digest expected and the digest found.
    """
    manifest = load_manifest(folder)
    data = {name: _load(folder, name, manifest) for name in (RECIPE, PLAN, WEIGHTS, DECISIONS)}
    for name in (PLAN_TEXT, CONSTANTS, EXPLANATION):
        _check(folder / name, _facts(folder / name), manifest.files[name])
    weights = read_tensors(data[WEIGHTS], str(folder / WEIGHTS)).tensors
    return Package(
        recipe=parse_packed_recipe(data[RECIPE].tobytes(), folder / RECIPE),
        plan=decode_plan(data[PLAN].tobytes(), str(folder / PLAN)),
        weights=weights,
        manifest=manifest,
        decided=read_decisions(data[DECISIONS].tobytes(), str(folder / DECISIONS)),
    )


def read_constants(folder: Path) -> Mapping[str, Array]:
    """The constants of a package's recipe by name, views of one buffer, not to be written to.

    Raises:
        PackageError: as `read_package`.
    """
    data = _load(folder, CONSTANTS, load_manifest(folder))
    return read_tensors(data, str(folder / CONSTANTS)).tensors


def read_weighed(folder: Path) -> tuple[Weighed, ...]:
    """What was weighed when a package was compiled.

    Raises:
        PackageError: as `read_package`.
    """
    data = _load(folder, EXPLANATION, load_manifest(folder))
    return read_explanation(data.tobytes(), str(folder / EXPLANATION))


def read_stored(folder: Path) -> StoredDecisions:
    """What of a package was decided without a look at its weights; they aren't read.

    Raises:
        PackageError: as `read_package`.
    """
    manifest = load_manifest(folder)
    names = (RECIPE, PLAN_TEXT, PLAN, EXPLANATION, DECISIONS)
    data = {name: _load(folder, name, manifest).tobytes() for name in names}
    facts = read_decisions(data[DECISIONS], str(folder / DECISIONS))
    weighed = read_explanation(data[EXPLANATION], str(folder / EXPLANATION))
    recipe = parse_packed_recipe(data[RECIPE], folder / RECIPE)
    return StoredDecisions(
        facts,
        replace(recipe, notes=facts.notes),
        weighed[len(weighed) - facts.weighed_count :],
        PlanFiles(data[PLAN_TEXT], data[PLAN]),
    )


def read_code(folder: Path) -> str:
    """The digest of the code that made a package; empty where that isn't known any more."""
    try:
        return code_of((folder / ENVIRONMENT).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return ""


def load_manifest(folder: Path) -> Manifest:
    """A package's manifest alone; no other file is looked at.

    Raises:
        PackageError: there is none, or it isn't as it was written.
    """
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PackageError(
            f"there is no package here: {MANIFEST} can't be read ({error.strerror})",
            where=str(folder),
            hint="give the folder that `recipe compile` wrote",
        ) from error
    return read_manifest(data, str(path))


def _load(folder: Path, name: str, manifest: Manifest) -> NDArray[np.uint8]:
    path = folder / name
    try:
        data, facts = load_hashed(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    _check(path, facts, manifest.files[name])
    return data


def _facts(path: Path) -> FileFacts:
    try:
        return file_facts(path)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> PackageError:
    return PackageError(
        f"the package's {path.name} can't be read: {error.strerror}", where=str(path), hint=_REPACK
    )


def _check(path: Path, found: FileFacts, expected: FileFacts) -> None:
    if found == expected:
        return
    sizes = ""
    if found.size_bytes != expected.size_bytes:
        sizes = f" ({expected.size_bytes} bytes expected, {found.size_bytes} found)"
    raise PackageError(
        f"the package's {path.name} isn't the file that was packed: sha256 {expected.sha256} "
        f"expected, {found.sha256} found{sizes}",
        where=str(path),
        hint=_REPACK,
    )


def parse_packed_recipe(data: bytes, path: Path) -> Recipe:
    """The recipe in the bytes of a package's file.

    Raises:
        PackageError: they are no recipe.
    """
    try:
        return parse_recipe(data.decode())
    except (RecipeError, UnicodeDecodeError) as error:
        raise PackageError(
            f"the package's recipe isn't one that this program reads: {error}",
            where=str(path),
            hint="compile the package again with this program",
        ) from error
