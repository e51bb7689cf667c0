"""The models of a repository as of one commit: names, files, and what model.yaml will say."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flows.git.command import SHORT
from flows.git.large_files import content_chunks
from flows.git.objects import Blobs, TreeFile, matching_paths, tree_files
from flows.repositories.external_data import KnownLocations
from flows.repositories.model_repository import NAME, REPOSITORIES_FILE, Mirror, key_of
from stages.errors import InputError
from stages.normalizer.quantization_copy import named_inputs

_UNFIT = re.compile(r"[^\w.\-]")
_ENTRY_FILE = "model.yaml"
_MODEL_ENDING = ".onnx"
_SAMPLES, _QUANTIZATION = "samples", "quantization"


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a model: where it goes in the model's folder, where it lies, and its blob."""

    placed: str
    path: str
    blob: str


@dataclass(frozen=True, slots=True)
class RepositoryModel:
    """A model as of one commit. `description` is its model.yaml.

    `defect` says why it can't be run: a file is missing, or can't be had.
    """

    name: str
    path: str
    description: str
    parts: tuple[Part, ...]
    defect: InputError | None = field(default=None, compare=False)

    @property
    def fingerprint(self) -> str:
        """Equal exactly where the model's folder would be equal: a hash of what it holds."""
        held = [self.description, *(f"{part.placed}\0{part.blob}" for part in self.parts)]
        return hashlib.sha256("\0".join(held).encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True, slots=True)
class ModelTree:
    """All models of a commit by name, and remarks on what is odd there."""

    commit: str
    models: Mapping[str, RepositoryModel]
    remarks: tuple[str, ...] = ()


def read_models(mirror: Mirror, commit: str) -> ModelTree:
    """The models of a commit.

    Raises:
        GitError: no such commit.
        InputError: two models of one name, or the registry file is wrong.
    """
    with Blobs(mirror.folder) as blobs:
        locations = KnownLocations(mirror.home / f"{mirror.config.name}.locations.json")
        reader = _Reader(mirror, commit, tree_files(mirror.folder, commit), blobs, locations)
        tree = reader.read()
    locations.save()
    return tree


@dataclass(slots=True)
class _Reader:
    mirror: Mirror
    commit: str
    files: dict[str, TreeFile]
    blobs: Blobs
    locations: KnownLocations
    remarks: list[str] = field(default_factory=list)

    def read(self) -> ModelTree:
        config = self.mirror.config
        matching = matching_paths(self.mirror.folder, self.commit, config.models)
        found = [path for path in matching if path.lower().endswith(_MODEL_ENDING)]
        named = list(self._registered(found))
        taken = {path for _, path, _ in named}
        named += [(_name_of(path), path, _Entry()) for path in found if path not in taken]
        self._refuse_twins([(name, path) for name, path, _ in named])
        models = {name: self._model(name, path, entry) for name, path, entry in sorted(named)}
        return ModelTree(self.commit, models, tuple(self.remarks))

    def _registered(self, found: list[str]) -> Iterator[tuple[str, str, _Entry]]:
        """Name, path and entry of what the registry file has."""
        registry = self.mirror.config.registry
        if registry is None:
            return
        if registry not in self.files:
            self.remarks.append(f"the registry file {registry!r} isn't in this commit")
            return
        entries = _parse(self.blobs.read(self.files[registry].blob), self._where(registry))
        for name, entry in entries.items():
            paths = [_beside(registry, entry.file)] if entry.file else _stems(found, name)
            for path in paths:
                if path in self.files:
                    yield name, path, entry
                else:
                    self.remarks.append(f"{registry} names {path!r}, which isn't in this commit")
            if not paths:
                self.remarks.append(f"{registry} names {name!r}, and no model file is called so")

    def _refuse_twins(self, named: list[tuple[str, str]]) -> None:
        paths: dict[str, str] = {}
        for name, path in named:
            if name in paths:
                raise InputError(
                    f"two models are called {name!r}: {paths[name]!r} and {path!r}",
                    where=self._where(""),
                    hint="give them names in the repository's registry file (`registry` in "
                    f"{REPOSITORIES_FILE}), or exclude one there: `models: ['**/*.onnx', "
                    f"'!{path}']`",
                )
            paths[name] = path

    def _model(self, name: str, path: str, entry: _Entry) -> RepositoryModel:
        file = posixpath.basename(path)
        parts, defect = [Part(file, path, self.files[path].blob)], None
        described: dict[str, object] = {
            "description": entry.description,
            "licence": entry.licence,
            "source": {"path": file},
            "bindings": dict(entry.bindings),
        }
        try:
            parts += self._external(path)
            if entry.samples is not None:
                described["samples"] = entry.samples.model_dump(exclude_none=True)
                if entry.samples.file is not None:
                    parts.append(self._listed(_SAMPLES, entry.samples.file))
                    described["samples"] = {"file": parts[-1].placed}
            if entry.quantization is not None:
                parts.append(self._listed(_QUANTIZATION, entry.quantization))
                described[_QUANTIZATION] = parts[-1].placed
                parts += self._named_inputs(parts[-1])
            self._check(parts)
        except InputError as error:
            defect = error
        kept = {key: value for key, value in described.items() if value not in ("", {})}
        text = yaml.safe_dump(kept, sort_keys=False, allow_unicode=True)
        return RepositoryModel(name, path, text, tuple(parts), defect)

    def _external(self, path: str) -> Iterator[Part]:
        """The external data; locations are relative to the .onnx, and lie in its folder."""
        blob = self.files[path].blob
        if self.files[path].is_link:
            return
        try:
            locations = self.locations.of(blob, content_chunks(self.blobs, blob))
        except InputError as error:
            raise InputError(error.problem, where=self._where(path), hint=error.hint) from error
        for location in locations:
            placed = posixpath.normpath(location)
            if placed.startswith(("../", "/")):
                raise InputError(
                    f"its external data lie outside its folder: {location!r}",
                    where=self._where(path),
                    hint="save the model again with its data beside it",
                )
            yield self._part(placed, posixpath.join(posixpath.dirname(path), placed), path)

    def _named_inputs(self, file: Part) -> Iterator[Part]:
        """The inputs that a quantisation file names; they lie beside it here, as they do there."""
        try:
            document = yaml.safe_load(b"".join(content_chunks(self.blobs, file.blob)))
        except (yaml.YAMLError, ValueError):
            return  # normalize says what is wrong with it
        for name in dict.fromkeys(named_inputs(document).values()):
            if posixpath.basename(name) == name:
                path = posixpath.join(posixpath.dirname(file.path), name)
                yield self._part(f"{_QUANTIZATION}/{name}", path, file.path)

    def _listed(self, role: str, file: str) -> Part:
        registry = self.mirror.config.registry
        assert registry is not None
        return self._part(f"{role}/{posixpath.basename(file)}", _beside(registry, file), registry)

    def _part(self, placed: str, path: str, named_by: str) -> Part:
        if path not in self.files:
            raise InputError(
                f"{path!r} isn't in the commit",
                where=self._where(named_by),
                hint="commit the file, or correct the path",
            )
        return Part(placed, path, self.files[path].blob)

    def _check(self, parts: list[Part]) -> None:
        places = [part.placed for part in parts] + [_ENTRY_FILE]
        for part in parts:
            if self.files[part.path].is_link:
                raise InputError(
                    "a symbolic link, which isn't followed",
                    where=self._where(part.path),
                    hint="name the file that it points to, in the registry file or in `models`",
                )
            is_folder = any(place.startswith(f"{part.placed}/") for place in places)
            if is_folder or places.count(part.placed) > 1:
                raise InputError(
                    f"two of its files would be called {part.placed!r}",
                    where=self._where(part.path),
                    hint="rename one of them",
                )

    def _where(self, path: str) -> str:
        place = f"{self.mirror.config.name} at {self.commit[:SHORT]}"
        return f"{path} in {place}" if path else place


def _name_of(path: str) -> str:
    """The file's stem, made fit for a folder's name."""
    stem = posixpath.basename(path).rpartition(".")[0] or posixpath.basename(path)
    name = _UNFIT.sub("_", stem)
    return name if re.match(r"[A-Za-z0-9]", name) else f"m{name}"


def _stems(found: list[str], name: str) -> list[str]:
    return [path for path in found if _name_of(path) == name]


def _beside(registry: str, file: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(registry), file))


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Source(_Strict):
    path: str


class _Samples(_Strict):
    file: str | None = None
    function: str | None = None


class _Entry(_Strict):
    path: str | None = None
    source: _Source | None = None
    description: str = ""
    licence: str = "not stated"
    bindings: dict[str, Annotated[int, Field(ge=1)]] = {}
    samples: _Samples | None = None
    quantization: str | None = None

    @property
    def file(self) -> str | None:
        return self.source.path if self.source is not None else self.path


class _Registry(BaseModel):
    models: dict[Annotated[str, Field(pattern=NAME)], _Entry]


def _parse(content: bytes, where: str) -> Mapping[str, _Entry]:
    hint = "see docs/commits.md for the registry file's keys"
    try:
        document: Any = yaml.safe_load(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError("the registry file isn't UTF-8", where=where, hint=hint) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise InputError("the registry file isn't YAML", where=where + line, hint=hint) from error
    try:
        return _Registry.model_validate({"models": document or {}}).models
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(
            f"the registry file: {first['msg'].lower()}",
            where=f"{where}, key {key_of(first)}",
            hint=hint,
        ) from error
