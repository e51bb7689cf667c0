"""Python functions that build or export a model: `package.module:function`, no arguments.

Such a function returns

- an `onnx.ModelProto`, or
- a torch module and its example inputs: `(module, inputs)`, where `inputs` is a tuple of tensors,
  or a dictionary of tensors by name, which then name the graph's inputs.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx

from stages.errors import InputError

_OPTIONAL = {"torch": "torch", "transformers": "transformers", "onnxruntime": "onnxruntime"}


def build_model(reference: str, roots: Sequence[Path], target: Path) -> None:
    """Calls a factory and writes its model to `target`, beside it first, then renamed.

    Raises:
        InputError: no such function, a library that it needs is missing, or it returns something
            else than a model.
    """
    function = import_function(reference, roots)
    with _importing_from(roots), _naming_missing_library(reference):
        made = function()
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    try:
        if isinstance(made, onnx.ModelProto):
            onnx.save(made, partial)
        elif isinstance(made, tuple) and len(made) == 2 and _is_torch_module(made[0]):
            from stages.normalizer.torch_export import export_module

            export_module(made[0], made[1], partial)
        else:
            raise InputError(
                f"{reference} returned {_kind(made)}",
                where=f"model function {reference}",
                hint="return an onnx.ModelProto, or a torch module with its example inputs: "
                "(module, inputs)",
            )
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def import_function(reference: str, roots: Sequence[Path]) -> Callable[..., Any]:
    """The function that `package.module:function` names; `roots` are searched first.

    Raises:
        InputError: no such module or function, or a library that the module needs is missing.
    """
    module_name, _, name = reference.partition(":")
    where = f"function {reference}"
    with _importing_from(roots), _naming_missing_library(reference):
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name and module_name.startswith(error.name):
                raise InputError(
                    f"no Python module {error.name!r}",
                    where=where,
                    hint="write package.module:function, and run from the folder that holds the "
                    "package",
                ) from error
            raise
    function = getattr(module, name, None)
    if not callable(function):
        near = [
            key for key in vars(module) if not key.startswith("_") and callable(vars(module)[key])
        ]
        raise InputError(
            f"no function {name!r} in {module_name}",
            where=where,
            hint=f"it has: {', '.join(near[:12]) or 'none'}",
        )
    return function  # type: ignore[no-any-return]


@contextmanager
def _importing_from(roots: Sequence[Path]) -> Iterator[None]:
    added = [str(root) for root in roots if str(root) not in sys.path]
    sys.path[:0] = added
    try:
        yield
    finally:
        for entry in added:
            sys.path.remove(entry)


@contextmanager
def _naming_missing_library(reference: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        raise InputError(
            f"the Python library {library!r} isn't installed",
            where=f"model function {reference}",
            hint=f"pip install {_OPTIONAL.get(library, library)}",
        ) from error


def _is_torch_module(made: object) -> bool:
    return any(kind.__module__.startswith("torch.") for kind in type(made).__mro__)


def _kind(made: object) -> str:
    if isinstance(made, tuple):
        return f"a tuple of {', '.join(type(item).__name__ for item in made)}"
    return type(made).__name__
