"""What a workspace has instead of its tree's: parameters, model folders, baselines of old names."""

from __future__ import annotations

import filecmp
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from flows.project.files import replaced, write_beside
from flows.project.params import parse_params
from flows.project.places import PARAMS_FILE
from stages.errors import InputError

_MODELS = "models"
_BASELINES = "baselines"


@dataclass(frozen=True, slots=True)
class Overlay:
    """Laid over a workspace's tree.

    `params` has values by dotted key (`benchmark.seed`); `models` the folder to place as
    `models/NAME`; `baselines` the old name whose baselines a new model name takes over.
    """

    params: Mapping[str, object] = field(default_factory=dict)
    models: Mapping[str, Path] = field(default_factory=dict)
    baselines: Mapping[str, str] = field(default_factory=dict)

    def paths(self) -> list[str]:
        """The files and folders that aren't the tree's."""
        params = [PARAMS_FILE] if self.params else []
        return params + [f"{_MODELS}/{name}" for name in self.models]


NO_OVERLAY = Overlay()


def lay_over(folder: Path, overlay: Overlay, params: bytes) -> None:
    """Brings the overlay into a folder, `params` being the tree's params.yaml.

    Files whose bytes don't change aren't written, so they keep their times.

    Raises:
        InputError: a dotted key leads through a value, or a model's folder is missing.
    """
    if overlay.params:
        _write(folder / PARAMS_FILE, changed_params(params, overlay.params))
    for name, source in overlay.models.items():
        if not source.is_dir():
            raise InputError("no such model folder", where=str(source))
        copy_folder(source, folder / _MODELS / name)
    for new, old in overlay.baselines.items():
        _take_over_baselines(folder / _BASELINES, new, old)


def changed_params(content: bytes, values: Mapping[str, object]) -> bytes:
    """The YAML document with these values set by dotted key.

    Raises:
        InputError: it isn't YAML, or a key leads through a value that has no keys.
    """
    document = parse_params(content) or {}
    for key, value in values.items():
        *sections, last = key.split(".")
        target = document
        for section in sections:
            if isinstance(target, dict) and target.get(section) is None:
                target[section] = {}
            target = target.get(section) if isinstance(target, dict) else None
        if not isinstance(target, dict):
            raise InputError(f"the parameter {key!r} leads through a value", where=PARAMS_FILE)
        target[last] = value
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode()


def copy_folder(source: Path, target: Path) -> None:
    """Makes `target` hold the same files as `source`; leaves those with the same bytes alone."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        target.unlink()
    wanted = {path.relative_to(source) for path in source.rglob("*")}
    for path in sorted(target.rglob("*"), reverse=True):
        inside = path.relative_to(target)
        same_kind = inside in wanted and path.is_dir() == (source / inside).is_dir()
        if not same_kind or path.is_symlink():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    target.mkdir(parents=True, exist_ok=True)
    for inside in sorted(wanted):
        theirs, ours = source / inside, target / inside
        if theirs.is_dir():
            ours.mkdir(exist_ok=True)
        elif not ours.is_file() or not filecmp.cmp(theirs, ours, shallow=False):
            with replaced(ours) as beside:
                shutil.copyfile(theirs, beside)


def _take_over_baselines(baselines: Path, new: str, old: str) -> None:
    """Gives a model's new name the files of its old one, on every device where it has none."""
    for device in sorted(path for path in baselines.glob("*") if path.is_dir()):
        if (device / f"{new}.json").exists():
            continue
        for ending in (".json", ".samples.csv"):
            theirs = device / f"{old}{ending}"
            if theirs.is_file():
                _write(device / f"{new}{ending}", theirs.read_bytes())


def _write(path: Path, content: bytes) -> None:
    if not path.is_file() or path.read_bytes() != content:
        write_beside(path, content)
