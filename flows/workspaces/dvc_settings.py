"""`.dvc/config.local` of a workspace: the project's own cache and remotes, by absolute paths."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.project.files import write_beside
from stages.errors import InputError

if TYPE_CHECKING:
    from configobj import ConfigObj  # type: ignore[import-untyped]

_CONFIG, _LOCAL = ".dvc/config", ".dvc/config.local"
_ADDRESS = re.compile(r"\w+://")
_REMOTE = re.compile(r"""['"]?remote ['"].*""")
_PATH_KEYS = frozenset(
    {
        "cert_path",
        "configpath",
        "credentialpath",
        "gdrive_service_account_json_file_path",
        "gdrive_user_credentials_file",
        "key_path",
        "keyfile",
        "url",
    }
)
"""Of a remote's settings those that DVC reads as relative to the config file's folder."""


def point_at_project(project: Path, workspace: Path) -> None:
    """Lets DVC in the workspace use the project's cache and remotes, and leave Git alone.

    Both paths are absolute. The project's config.local is taken over whole, since it names what
    belongs to this machine: remotes, credentials, kinds of links.

    Raises:
        InputError: a DVC configuration can't be read.
    """
    shared, own = _read(workspace / _CONFIG), _read(project / _LOCAL)
    _make_absolute(own, project / ".dvc")
    for name, section in shared.items():
        if _REMOTE.fullmatch(name):
            _fill(own, name, _moved_paths(section, project / ".dvc"))
    before = _read(project / _CONFIG)
    cache = _setting(own, "cache", "dir") or _setting(before, "cache", "dir") or "cache"
    _fill(own, "cache", {}, {"dir": str(_absolute(cache, project / ".dvc"))})
    _fill(own, "core", {}, {"no_scm": "true"})
    written = io.BytesIO()
    own.write(written)
    target = workspace / _LOCAL
    target.parent.mkdir(exist_ok=True)
    if not target.is_file() or target.read_bytes() != written.getvalue():
        write_beside(target, written.getvalue())


def _read(path: Path) -> ConfigObj:
    from configobj import ConfigObj, ConfigObjError

    try:
        return ConfigObj(
            str(path) if path.is_file() else None, encoding="utf-8", write_empty_values=True
        )
    except (ConfigObjError, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"the DVC configuration can't be read: {error}",
            where=str(path),
            hint="mend it with `dvc config`, or restore it from Git",
        ) from error


def _setting(config: Mapping[str, Any], section: str, key: str) -> str:
    found = config.get(section)
    return str(found.get(key, "")) if isinstance(found, Mapping) else ""


def _make_absolute(config: ConfigObj, folder: Path) -> None:
    for name, section in config.items():
        if _REMOTE.fullmatch(name):
            section.update(_moved_paths(section, folder))


def _moved_paths(section: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """The section's paths that were relative to the folder, absolute."""
    paths = {key: str(value) for key, value in section.items() if key in _PATH_KEYS}
    return {
        key: _absolute(path, folder)
        for key, path in paths.items()
        if not _ADDRESS.match(path) and not Path(path).expanduser().is_absolute()
    }


def _absolute(path: str, folder: Path) -> str:
    return os.path.abspath(folder / Path(path).expanduser())


def _fill(
    config: ConfigObj,
    name: str,
    missing: Mapping[str, str],
    certain: Mapping[str, str] | None = None,
) -> None:
    section = config.setdefault(name, {})
    for key, value in missing.items():
        section.setdefault(key, value)
    section.update(certain or {})
