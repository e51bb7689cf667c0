"""A compile that was stopped after a pass: its recipe as text, and what going on needs beside.

recipe.txt              the recipe in the making; may be edited
constants.safetensors   the data of its constants
explanation.json        what was weighed so far
stopped.json            after which pass, and where its decisions come from
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from stages.errors import InputError, PackageError
from stages.package.digest import load_hashed
from stages.package.explanation_file import print_explanation, read_explanation
from stages.package.folder import replace_folder, write_file
from stages.package.json_door import Piece, malformed
from stages.package.manifest import CONSTANTS, EXPLANATION, RECIPE, STOPPED, FileFacts
from stages.plan.tensor_file import read_tensors, write_tensors
from stages.recipe.decisions import Recipe
from stages.recipe.explanation import Weighed
from stages.recipe.text import parse_recipe, print_recipe
from stages.tensors import Array

_STOP = "give the recipe.txt of a folder that `recipe compile --stop-after PASS` wrote"


@dataclass(frozen=True, slots=True)
class StoppedFacts:
    """What `stopped.json` holds.

    `after` is the last pass. `structure_sha256`, `notes`, `weighed_count` and `sources` are those
    of the decisions made so far (see `DecidedFacts`), empty where none was. `cascades` is the
    option that they were made with (see `Manifest`), `code_sha256` the digest of the code that made
    them.
    """

    after: str
    structure_sha256: str = ""
    notes: tuple[str, ...] = ()
    weighed_count: int = 0
    sources: Mapping[str, str] = field(default_factory=dict)
    cascades: str = "on"
    code_sha256: str = ""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A recipe in the making. `inputs` are the SHA-256 digests of what it was begun from, by name
    (`model`, `hardware spec`, ...). `is_edited` says whether its text was changed since."""

    facts: StoppedFacts
    recipe: Recipe
    constants: Mapping[str, Array]
    weighed: tuple[Weighed, ...]
    inputs: Mapping[str, str] = field(default_factory=dict)
    is_edited: bool = False


class _Document(Piece):
    after: str
    recipe_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    structure_sha256: str
    notes: list[str]
    weighed_count: Annotated[int, Field(ge=0)]
    sources: dict[str, str]
    cascades: Literal["on", "off"]
    code_sha256: str
    inputs: dict[str, str]


def write_stopped(folder: Path, stopped: Stopped) -> None:
    """Write the folder, whole or not at all.

    Raises:
        InputError: it can't be written, or holds something else.
    """
    replace_folder(folder, "stopped compile", (STOPPED,), lambda fresh: _fill(fresh, stopped))


def _fill(fresh: Path, stopped: Stopped) -> None:
    text = print_recipe(stopped.recipe).encode()
    explanation = print_explanation(stopped.weighed).encode()
    facts = write_file(fresh / RECIPE, lambda sink: sink.write(text))
    write_file(fresh / CONSTANTS, lambda sink: write_tensors(sink, stopped.constants))
    write_file(fresh / EXPLANATION, lambda sink: sink.write(explanation))
    document = {
        "after": stopped.facts.after,
        "recipe_sha256": facts.sha256,
        "structure_sha256": stopped.facts.structure_sha256,
        "notes": stopped.facts.notes,
        "weighed_count": stopped.facts.weighed_count,
        "sources": dict(sorted(stopped.facts.sources.items())),
        "cascades": stopped.facts.cascades,
        "code_sha256": stopped.facts.code_sha256,
        "inputs": dict(sorted(stopped.inputs.items())),
    }
    said = json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
    write_file(fresh / STOPPED, lambda sink: sink.write(said))


def read_stopped(file: Path) -> Stopped:
    """The recipe in a text file (or in the folder's own), with what lies beside it.

    Raises:
        InputError: there is no such file, something is missing or broken beside it, or the text is
            no recipe: the error shows line, column and the line.
    """
    path = file / RECIPE if file.is_dir() else file
    folder = path.parent
    text, facts = _loaded(path)
    said, _ = _loaded(folder / STOPPED)
    data, _ = _loaded(folder / CONSTANTS)
    reasons, _ = _loaded(folder / EXPLANATION)
    recipe = _parsed(text.tobytes(), path)
    try:
        document = _document(said.tobytes(), str(folder / STOPPED))
        tensors = read_tensors(data, str(folder / CONSTANTS)).tensors
        weighed = read_explanation(reasons.tobytes(), str(folder / EXPLANATION))
    except PackageError as error:
        raise InputError(error.problem, where=error.where, hint=_STOP) from error
    return Stopped(
        StoppedFacts(
            document.after,
            document.structure_sha256,
            tuple(document.notes),
            document.weighed_count,
            document.sources,
            document.cascades,
            document.code_sha256,
        ),
        recipe,
        {name: tensors[name] for name in recipe.graph.constants if name in tensors},
        weighed,
        document.inputs,
        facts.sha256 != document.recipe_sha256,
    )


def _document(data: bytes, where: str) -> _Document:
    try:
        return _Document.model_validate_json(data)
    except ValidationError as error:
        raise malformed(STOPPED, error, where, _STOP) from error


def _parsed(data: bytes, path: Path) -> Recipe:
    try:
        return parse_recipe(data.decode())
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name} isn't text: {error}", where=str(path), hint=_STOP) from error
    except InputError as error:
        where = f"{path}: {error.where}"
        raise InputError(error.problem, where=where, hint=error.hint) from error


def _loaded(path: Path) -> tuple[NDArray[np.uint8], FileFacts]:
    try:
        return load_hashed(path)
    except OSError as error:
        raise InputError(
            f"{path.name} can't be read: {error.strerror}", where=str(path), hint=_STOP
        ) from error
