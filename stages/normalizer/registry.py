"""The model registry (`models/registry.yaml`): where models come from, and how to feed them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stages.errors import InputError
from stages.normalizer.factories import build_model
from stages.normalizer.source import ModelSource
from stages.normalizer.wheels import Wheel, fetch_member

_FUNCTION = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"
_DIGEST = r"^[0-9a-f]{64}$"


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """What the registry says about one model. Exactly one of `path`, `wheel`, `function` is set."""

    name: str
    description: str
    licence: str
    path: Path | None
    wheel: Wheel | None
    function: str
    bindings: Mapping[str, int]
    samples: Path | None
    sampler: str

    @property
    def origin(self) -> str:
        """Where the model comes from, in words; no path of this machine."""
        if self.wheel is not None:
            return f"wheel {self.wheel}, {self.wheel.member}"
        if self.function:
            return f"function {self.function}"
        assert self.path is not None
        return f"file {self.path.name}"


@dataclass(frozen=True, slots=True)
class Registry:
    """All entries by name. Functions are searched in `import_roots` first."""

    path: Path
    entries: Mapping[str, RegistryEntry]

    @property
    def import_roots(self) -> tuple[Path, ...]:
        """The folder that holds the registry's folder (`models` is a package there), and here."""
        return (self.path.resolve().parent.parent, Path.cwd())


def load_registry(path: Path) -> Registry:
    """Reads a registry file.

    Raises:
        InputError: the file is missing or no YAML, or an entry is wrong: with the key's path, the
            value and the cure.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError("no model registry", where=str(path)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the model registry can't be read: {error}", where=str(path)) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not YAML"
        raise InputError(
            f"the model registry isn't YAML: {problem}", where=f"{path}{line}"
        ) from error
    try:
        document = _Document.model_validate(content)
    except ValidationError as error:
        raise _wrong_key(error, path) from error
    folder = path.parent
    entries = {name: model.entry(name, folder) for name, model in document.models.items()}
    return Registry(path, dict(sorted(entries.items())))


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
    raise InputError(
        f"no model {model!r}",
        where=str(registry.path),
        hint=f"give an .onnx file, package.module:function, or one of: {_nearest(model, registry)}",
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
        import_roots=registry.import_roots,
        licence=entry.licence,
        origin=entry.origin,
    )


def _nearest(model: str, registry: Registry) -> str:
    import difflib

    near = difflib.get_close_matches(model, registry.entries, n=5, cutoff=0.4)
    return ", ".join(near or list(registry.entries)[:8])


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Source(_Strict):
    path: str | None = None
    wheel: str | None = None
    version: str | None = None
    sha256: Annotated[str, Field(pattern=_DIGEST)] | None = None
    member: str | None = None
    platform: str = ""
    function: Annotated[str, Field(pattern=_FUNCTION)] | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        kinds = [kind for kind in ("path", "wheel", "function") if getattr(self, kind)]
        if len(kinds) != 1:
            raise ValueError(f"a source is a path, a wheel or a function: {kinds or 'none'} given")
        rest = [key for key in ("version", "sha256", "member") if getattr(self, key)]
        if self.wheel and len(rest) != 3:
            raise ValueError("a wheel source needs version, sha256 and member")
        if not self.wheel and (rest or self.platform):
            raise ValueError(f"{', '.join(rest) or 'platform'}: for wheel sources only")
        return self


class _Samples(_Strict):
    file: str | None = None
    function: Annotated[str, Field(pattern=_FUNCTION)] | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.file is None) == (self.function is None):
            raise ValueError("samples come from a file or from a function")
        return self


class _Entry(_Strict):
    description: str = ""
    licence: str
    source: _Source
    bindings: dict[str, Annotated[int, Field(ge=1)]] = {}
    samples: _Samples | None = None

    def entry(self, name: str, folder: Path) -> RegistryEntry:
        source, samples = self.source, self.samples
        wheel = None
        if source.wheel:
            wheel = Wheel(
                package=source.wheel,
                version=source.version or "",
                sha256=source.sha256 or "",
                member=source.member or "",
                platform=source.platform,
            )
        return RegistryEntry(
            name=name,
            description=self.description,
            licence=self.licence,
            path=folder / source.path if source.path else None,
            wheel=wheel,
            function=source.function or "",
            bindings=dict(self.bindings),
            samples=folder / samples.file if samples and samples.file else None,
            sampler=(samples.function or "") if samples else "",
        )


class _Document(_Strict):
    version: Annotated[int, Field(ge=1, le=1)]
    models: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.\-]*$")], _Entry]


def _wrong_key(error: ValidationError, path: Path) -> InputError:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"] if part != "[key]")
    shown: Any = first["input"]
    value = f" (value: {shown!r})" if isinstance(shown, (str, int, float, bool)) else ""
    message = first["msg"].removeprefix("Value error, ")
    hints = {
        "missing": f"add the key {first['loc'][-1]!r}" if first["loc"] else "fill the file",
        "extra_forbidden": "remove the key, or check its spelling",
    }
    return InputError(
        f"model registry: {message}{value}",
        where=f"{path}, key {key or '(top)'}",
        hint=hints.get(first["type"], "see the comment at the top of models/registry.yaml"),
    )
