"""What a model on the command line means: a file, a registry name, or a function."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from flows.project.places import Project
from stages.errors import InputError

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:(?P<name>[A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A model as the user named it, and the name that its folders get.

    It is fetched or built by the stage that reads it, so that nothing waits for a download before
    it must.
    """

    name: str
    word: str
    project: Project
    samples: Path | None = None


def request_model(word: str, project: Project, samples: Path | None = None) -> ModelRequest:
    """The request for a word on the command line.

    Raises:
        InputError: neither a registry name, nor a file that exists, nor a function; the registry's
            entry is wrong; or no folder can have the file's name.
    """
    if _is_registered(word, project):
        return ModelRequest(word, word, project, samples)
    path = Path(word)
    name = model_name(word)
    if path.suffix == ".onnx" or path.exists():
        if not path.is_file():
            raise _no_file(word, path, project)
    elif not _FUNCTION.fullmatch(word):
        raise _unknown(word, project)
    if not name.strip("."):
        raise InputError(
            f"no folder can be called {name!r}", where=word, hint="rename the model's file"
        )
    return ModelRequest(name, word, project, samples)


def model_name(word: str) -> str:
    """The name that a model's folders get: the file's, the function's, or the registry's."""
    if match := _FUNCTION.fullmatch(word):
        return match["name"]
    path = Path(word)
    return path.stem if path.suffix == ".onnx" or path.is_file() else word


def _is_registered(word: str, project: Project) -> bool:
    """Whether the registry knows the word; what it says of the model is checked on the way."""
    from stages.normalizer.registry import load_registry

    return load_registry(project.registry).entries.get(word) is not None


def _no_file(word: str, path: Path, project: Project) -> InputError:
    hint = "give the path of an .onnx file, or a name that `recipe models list` prints"
    if not path.is_dir():
        return InputError(f"no model file {path.name!r}", where=word, hint=hint)
    if _is_registered(path.name, project):
        hint = f"give the path of an .onnx file, or the model's name: {path.name}"
    return InputError(f"{path.name!r} is a folder, not a model file", where=word, hint=hint)


def _unknown(word: str, project: Project) -> InputError:
    from stages.normalizer.registry import load_registry, no_such_model

    return no_such_model(word, load_registry(project.registry))
