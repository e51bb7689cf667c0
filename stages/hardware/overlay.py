"""An overlay: a YAML file that lays measured values over a hardware spec.

    overlay: 1
    hardware: npu_a                     # the spec beside this file, npu_a.yaml
    hardware_sha256: 3f1c...            # of that file, as it was when the values were fitted
    reviewed: true                      # a person has read the errors below
    values:
      memory.ddr.read_bandwidth:
        {value: 9.31 GB/s, was: 9 GB/s, mark: fitted, interval: [9.1 GB/s, 9.5 GB/s], source: ...}

`recipe calibrate` writes it with `reviewed: false`; such a file is refused here until a person has
changed that word. Everything else is checked as in the spec itself, after the values took their
places.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stages.errors import HardwareSpecError
from stages.hardware.document import Document, KeyPath, Value, path_text, read_document
from stages.hardware.provenance import covers_nothing
from stages.hardware.spec import Mark
from stages.hardware.vocabulary import did_you_mean

OVERLAY_SUFFIX = ".overlay.yaml"
OVERLAY_VERSION = 1
_MARKER = "overlay"
_SHOWN_DIGITS = 12

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]{0,63}$")]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class _Value(_Section):
    value: str | int
    was: str | int
    mark: Literal["fitted"]
    interval: Annotated[list[str | int], Field(min_length=2, max_length=2)]
    source: Annotated[str, Field(min_length=1, max_length=2000)]


class _Measurements(_Section):
    file: str
    sha256: Sha256
    fitted_rows: int
    held_out_rows: int


class _Errors(_Section):
    mape: str
    largest: str
    spearman: float | int | None


class _BothErrors(_Section):
    fitted: _Errors
    held_out: _Errors


class _OverlayFile(_Section):
    overlay: Literal[1]
    hardware: Name
    hardware_sha256: Sha256
    reviewed: bool
    values: Annotated[dict[str, _Value], Field(min_length=1)]
    measurements: _Measurements | None = None
    errors: _BothErrors | None = None
    warnings: list[str] = []


@dataclass(frozen=True, slots=True)
class LaidValue:
    """A value for one key of a spec, as YAML holds it, and where it comes from."""

    value: str | int
    source: str


def is_overlay(document: Document) -> bool:
    """Whether a file says that it is an overlay."""
    return _MARKER in document.data


def base_name(path: Path) -> str:
    """The name of the spec that a spec's or an overlay's file is called after."""
    suffix = OVERLAY_SUFFIX if path.name.endswith(OVERLAY_SUFFIX) else path.suffix
    return path.name.removesuffix(suffix)


def overlay_base(path: Path, hardware: str) -> Path:
    """The spec's file that an overlay at `path` is for."""
    return path.with_name(hardware + ".yaml")


def merged_document(overlay: Document) -> Document:
    """The spec that an overlay is for, with the overlay's values; its content is both files'.

    Raises:
        HardwareSpecError: the overlay is malformed, unreviewed, for another spec than the one
            beside it, or names keys that can't be.
    """
    file = _checked(overlay)
    base = _read_base(overlay, file.hardware)
    digest = hashlib.sha256(base.content).hexdigest()
    if digest != file.hardware_sha256:
        raise HardwareSpecError(
            f"the overlay was fitted to another {base.path.name}: one with sha256"
            f" {file.hardware_sha256[:_SHOWN_DIGITS]}, and this one has {digest[:_SHOWN_DIGITS]}",
            where=overlay.where(("hardware_sha256",)),
            hint=f"calibrate again: `recipe calibrate {file.hardware} --measurements FILE.csv`",
        )
    if not file.reviewed:
        raise HardwareSpecError(
            "nobody has reviewed this overlay: `reviewed` is false",
            where=overlay.where(("reviewed",)),
            hint="read its values, errors and warnings; then write `reviewed: true`",
        )
    values = {
        _key_path(text, overlay): LaidValue(item.value, item.source)
        for text, item in file.values.items()
    }
    content = base.content + overlay.content
    version = f"{base.data.get('version')}+overlay.{_digest(overlay.content)[:8]}"
    return with_values(base, values, version, content)


def with_values(
    base: Document, values: Mapping[KeyPath, LaidValue], version: str, content: bytes
) -> Document:
    """A spec's document with other values, each marked as fitted, and another version.

    Raises:
        HardwareSpecError: a key path leads through something that isn't a mapping.
    """
    data = copy.deepcopy(base.data)
    for key_path, laid in values.items():
        _set(data, key_path, laid.value, base)
    sources = data.get("sources")
    if isinstance(sources, dict):
        for key_path, laid in values.items():
            entry: dict[str, Value] = {"mark": str(Mark.FITTED), "source": laid.source}
            sources[path_text(key_path)] = entry
    data["version"] = version
    merged = Document(base.path, content, data, base.lines)
    if isinstance(sources, dict):
        for key in covers_nothing(merged, frozenset(sources)):
            del sources[key]
    return merged


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read_base(overlay: Document, hardware: str) -> Document:
    path = overlay_base(overlay.path, hardware)
    if not path.is_file():
        raise HardwareSpecError(
            f"the overlay is for {hardware}, and no {path.name} lies beside it",
            where=overlay.where(("hardware",)),
            hint=f"move it to the folder of {path.name}",
        )
    return read_document(path)


def _checked(document: Document) -> _OverlayFile:
    try:
        return _OverlayFile.model_validate(document.data)
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        key_path = tuple(key for key in details["loc"] if key not in ("str", "int"))
        while key_path and key_path not in document.lines and len(key_path) > 1:
            key_path = key_path[:-1]
        message = {"missing": "missing key", "extra_forbidden": "unknown key"}.get(
            details["type"], details["msg"][:1].lower() + details["msg"][1:]
        )
        raise HardwareSpecError(
            f"{path_text(key_path)}: {message}",
            where=document.where(key_path),
            hint="see docs/calibration.md, or let `recipe calibrate` write it",
        ) from error


def _key_path(text: str, overlay: Document) -> KeyPath:
    keys: Sequence[str] = text.split(".")
    if not all(keys) or keys[0] in ("sources", "name", "version", "compiler", "schema"):
        raise HardwareSpecError(
            f"values: {text!r} isn't the key path of a number in a spec",
            where=overlay.where(("values", text)),
            hint="write a path such as `memory.ddr.read_bandwidth`",
        )
    return tuple(keys)


def _set(data: dict[str, Value], key_path: KeyPath, value: str | int, base: Document) -> None:
    inner = data
    for key in key_path[:-1]:
        following = inner.setdefault(str(key), {})
        if not isinstance(following, dict):
            raise HardwareSpecError(
                f"{path_text(key_path)}: `{key}` isn't a mapping in the spec",
                where=str(base.path),
                hint=did_you_mean(str(key), inner),
            )
        inner = following
    inner[str(key_path[-1])] = value
