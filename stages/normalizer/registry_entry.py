"""One model of the registry: what its `model.yaml` says. `models/README.md` describes the form."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stages.errors import InputError
from stages.normalizer.wheels import Wheel
from stages.normalizer.yaml_file import read_yaml

ENTRY_FILE = "model.yaml"

_NAME = re.compile(r"[A-Za-z0-9][\w.\-]*")
_FUNCTION = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"
_DIGEST = r"^[0-9a-f]{64}$"
_NO_NUL = r"^[^\x00]*$"


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """What the registry says about one model. Exactly one of `path`, `wheel`, `function` is set.

    `path`, `samples` and `quantization` lie inside the model's folder; they may not exist.
    """

    name: str
    description: str
    licence: str
    path: Path | None
    wheel: Wheel | None
    function: str
    bindings: Mapping[str, int]
    samples: Path | None
    sampler: str
    quantization: Path | None

    @property
    def origin(self) -> str:
        """Where the model comes from, in words; no path of this machine."""
        if self.wheel is not None:
            return f"wheel {self.wheel}, {self.wheel.member}"
        if self.function:
            return f"function {self.function}"
        assert self.path is not None
        return f"file {self.path.name}"


def read_entry(folder: Path) -> RegistryEntry:
    """Reads `model.yaml` of a model's folder, which names the model.

    Raises:
        InputError: the folder's name can't be a model's; the file is missing or no YAML; or it is
            wrong: with the key's path, the value and the cure.
    """
    if not _NAME.fullmatch(folder.name):
        raise InputError(
            f"a model can't be called {folder.name!r}",
            where=str(folder),
            hint="rename its folder: letters, digits, `_`, `.` and `-`, a letter or digit first",
        )
    form = f"write {ENTRY_FILE} as models/README.md says"
    file = read_yaml(folder / ENTRY_FILE, "model description", missing=form, wrong=form)
    try:
        document = _Document.model_validate(file.document)
    except ValidationError as error:
        raise _wrong_key(error, folder) from error
    return document.entry(folder)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


_File = Annotated[str, Field(min_length=1, pattern=_NO_NUL)]


class _Source(_Strict):
    path: _File | None = None
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

    def as_wheel(self) -> Wheel | None:
        if not self.wheel:
            return None
        return Wheel(
            package=self.wheel,
            version=self.version or "",
            sha256=self.sha256 or "",
            member=self.member or "",
            platform=self.platform,
        )


class _Samples(_Strict):
    file: _File | None = None
    function: Annotated[str, Field(pattern=_FUNCTION)] | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.file is None) == (self.function is None):
            raise ValueError("samples come from a file or from a function")
        return self


class _Document(_Strict):
    description: str = ""
    licence: str
    source: _Source
    bindings: dict[str, Annotated[int, Field(ge=1)]] = {}
    samples: _Samples | None = None
    quantization: _File | None = None

    def entry(self, folder: Path) -> RegistryEntry:
        source, samples = self.source, self.samples or _Samples.model_construct()
        return RegistryEntry(
            name=folder.name,
            description=self.description,
            licence=self.licence,
            path=_inside(folder, source.path, "source.path"),
            wheel=source.as_wheel(),
            function=source.function or "",
            bindings=dict(self.bindings),
            samples=_inside(folder, samples.file, "samples.file"),
            sampler=samples.function or "",
            quantization=_inside(folder, self.quantization, "quantization"),
        )


def _inside(folder: Path, file: str | None, key: str) -> Path | None:
    """The file's path; links are followed, since what they lead to is what would change."""
    if file is None:
        return None
    path = folder / file
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise InputError(
            f"{file!r} lies outside the model's folder",
            where=f"{folder / ENTRY_FILE}, key {key}",
            hint=f"move it into {folder.name}/: a change elsewhere would make no result stale",
        )
    return path


def _wrong_key(error: ValidationError, folder: Path) -> InputError:
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
        f"model {folder.name!r}: {message}{value}",
        where=f"{folder / ENTRY_FILE}, key {key or '(top)'}",
        hint=hints.get(first["type"], "see models/README.md"),
    )
