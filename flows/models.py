"""What a model on the command line means: a file, a registry name, or a function."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from flows.places import Project
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
        InputError: neither a registry name, nor a file that exists, nor a function; or no folder
            can have the file's name.
    """
    path = Path(word)
    name = model_name(word)
    if path.suffix == ".onnx" or path.exists():
        if not path.is_file():
            raise InputError(
                f"no model file {path.name!r}",
                where=word,
                hint="give the path of an .onnx file, or a name that `recipe models list` prints",
            )
    elif not _FUNCTION.fullmatch(word):
        _require_registered(word, project)
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


def _require_registered(word: str, project: Project) -> None:
    import difflib

    from stages.normalizer.registry import load_registry

    known = list(load_registry(project.registry).entries)
    if word not in known:
        near = difflib.get_close_matches(word, known, n=5, cutoff=0.4) or known[:8]
        raise InputError(
            f"no model {word!r}",
            where=str(project.registry),
            hint=f"give an .onnx file, package.module:function, or one of: {', '.join(near)}",
        )
