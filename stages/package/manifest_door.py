"""The door through which `manifest.json` comes in: checked by pydantic, and against itself."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from stages.errors import PackageError
from stages.package.json_door import Piece, malformed
from stages.package.manifest import DIGESTED, FORMAT, FileFacts, Manifest, print_manifest

_REPACK = "compile the package again, or fetch a whole copy of it"
_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _File(Piece):
    size_bytes: Annotated[int, Field(ge=0)]
    sha256: _Sha256


class _Model(Piece):
    name: str
    sha256: _Sha256


class _Hardware(Piece):
    name: str
    version: str
    sha256: _Sha256


class _Quantization(Piece):
    sha256: _Sha256
    data: dict[str, _Sha256] = Field(default_factory=dict)


class _Strategy(Piece):
    cascades: Literal["on", "off", "layer-by-layer"]


class _Document(Piece):
    format: Literal[1]
    model: _Model
    hardware: _Hardware
    quantization: _Quantization | None
    compiler_version: str
    strategy: _Strategy
    recipe_sha256: _Sha256
    files: dict[str, _File]
    not_digested: list[str]
    package_sha256: _Sha256


def read_manifest(data: bytes, where: str) -> Manifest:
    """The manifest in the bytes of a `manifest.json`; `where` names the file in errors.

    Raises:
        PackageError: it isn't JSON, isn't in the form of a manifest, lacks a file, or isn't what
            its own digest says.
    """
    try:
        document = json.loads(data)
    except ValueError as error:
        raise PackageError(
            f"the package's manifest isn't JSON: {error}", where=where, hint=_REPACK
        ) from error
    _check_format(document, where)
    try:
        parsed = _Document.model_validate(document)
    except ValidationError as error:
        raise malformed("the package's manifest", error, where, _REPACK) from error
    return _checked(parsed, data, where)


def _check_format(document: object, where: str) -> None:
    found = document.get("format") if isinstance(document, dict) else None
    if isinstance(found, int) and found != FORMAT:
        raise PackageError(
            f"the package is of format {found}; this program reads format {FORMAT}",
            where=where,
            hint="compile it again with this program, or read it with the one that made it",
        )


def _checked(parsed: _Document, data: bytes, where: str) -> Manifest:
    manifest = Manifest(
        model=parsed.model.name,
        model_sha256=parsed.model.sha256,
        hardware=parsed.hardware.name,
        hardware_version=parsed.hardware.version,
        hardware_sha256=parsed.hardware.sha256,
        compiler_version=parsed.compiler_version,
        quantization_sha256=parsed.quantization.sha256 if parsed.quantization else None,
        quantization_data_sha256=parsed.quantization.data if parsed.quantization else {},
        cascades=parsed.strategy.cascades,
        recipe_sha256=parsed.recipe_sha256,
        files={
            name: FileFacts(facts.size_bytes, facts.sha256) for name, facts in parsed.files.items()
        },
    )
    if set(manifest.files) != set(DIGESTED):
        raise PackageError(
            f"the package's manifest lists {', '.join(sorted(manifest.files)) or 'no files'}; a "
            f"package's files are {', '.join(sorted(DIGESTED))}",
            where=where,
            hint=_REPACK,
        )
    if parsed.package_sha256 != manifest.package_sha256:
        raise PackageError(
            "the package's manifest was changed after it was written: its package_sha256 is "
            f"{parsed.package_sha256}, what it says has {manifest.package_sha256}",
            where=where,
            hint=_REPACK,
        )
    if print_manifest(manifest).encode() != data:
        raise PackageError(
            "the package's manifest was changed after it was written: it says what it said, in "
            "other bytes",
            where=where,
            hint=_REPACK,
        )
    return manifest
