"""dvc.lock, written once a run, whole or not at all. Touches DVC's internals, as `graph` says.

DVC's own writer takes most of a cold run's time on a large matrix; this one is the C library's, and
gives the same bytes, so that `dvc repro` finds nothing to write anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from dvc.stage import PipelineStage
from dvc.stage.serialize import to_lockfile

from stages.errors import InputError

_WIDTH = 80
_UNFOLDED = 10**9
_COMMAND = "    cmd: "
_FOLDED = "      "


def write_lockfile(path: Path, stages: Iterable[PipelineStage]) -> None:
    """Puts the entries of these stages into the file, and leaves the others.

    Raises:
        InputError: it can't be written; what it held before is kept.
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        content = yaml.load(path.read_bytes(), yaml.CSafeLoader) if path.exists() else None
        content = content or {"schema": "2.0"}
        entries = content.setdefault("stages", {})
        for stage in stages:
            entries |= _plain(to_lockfile(stage))
        with beside.open("w", encoding="utf-8") as stream:
            stream.write(lockfile_text(content))
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except OSError as error:
        raise InputError(
            f"dvc.lock can't be written: {error.strerror or error}",
            where=str(path),
            hint="free some space, and run again: the run-cache keeps all results",
        ) from error
    finally:
        beside.unlink(missing_ok=True)


def lockfile_text(content: Mapping[str, Any]) -> str:
    """The text as DVC writes it: nothing for null, and long commands folded."""
    text = yaml.dump(
        content,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=False,
        allow_unicode=True,
        width=_UNFOLDED,
    )
    return "\n".join(map(_fold, str(text).split("\n")))


class _Dumper(yaml.CSafeDumper):
    """Writes null as nothing."""


_Dumper.add_representer(
    type(None), lambda dumper, _: dumper.represent_scalar("tag:yaml.org,2002:null", "")
)


def _fold(line: str) -> str:
    if len(line) <= _WIDTH or not line.startswith(_COMMAND) or line[len(_COMMAND)] in "\"'|>":
        return line
    lines: list[str] = []
    first, *words = line[len(_COMMAND) :].split(" ")
    current = _COMMAND + first
    for word in words:
        if len(current) + 1 + len(word) <= _WIDTH:
            current += f" {word}"
        else:
            lines.append(current + (" " if len(current) < _WIDTH else ""))
            current = _FOLDED + word
    return "\n".join([*lines, current])


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
