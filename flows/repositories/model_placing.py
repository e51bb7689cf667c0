"""Writes models of a commit as folders, in the form that `models/NAME` has in the project."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from flows.git.large_files import content_chunks
from flows.git.objects import Blobs
from flows.repositories.model_repository import Mirror
from flows.repositories.model_tree import RepositoryModel
from stages.errors import InputError

_ENTRY_FILE = "model.yaml"
_STAMP = ".placed"


def place_models(
    mirror: Mirror, models: Iterable[RepositoryModel], home: Path
) -> tuple[Mapping[str, Path], Mapping[str, InputError]]:
    """Brings `home` to hold a folder for each of these models, and no other.

    Folders that are right already aren't written. Gives the folders, and for the models that
    can't be placed the reason: a defect that is known, or a Git LFS file that can't be had. Whoever
    calls holds a lock on `home`.

    Raises:
        GitError: the mirror is damaged.
        InputError: the disk is full, or can't be written.
    """
    wanted = {model.name: model for model in models}
    placed: dict[str, Path] = {}
    failed: dict[str, InputError] = {}
    try:
        home.mkdir(parents=True, exist_ok=True)
        for entry in home.iterdir():
            if entry.name not in wanted:
                shutil.rmtree(entry)
        with Blobs(mirror.folder) as blobs:
            for name, model in wanted.items():
                try:
                    placed[name] = _place(blobs, model, home / name)
                except InputError as error:
                    failed[name] = error
    except OSError as error:
        raise InputError(
            f"a model can't be written: {error.strerror}",
            where=str(home),
            hint="free some space on the disk, or let RECIPE_CACHE name another folder",
        ) from error
    return placed, failed


def _place(blobs: Blobs, model: RepositoryModel, home: Path) -> Path:
    """The model's folder: `home/NAME`, so that what lies beside it can say that it is whole."""
    if model.defect is not None:
        raise model.defect
    folder, stamp = home / model.name, home / _STAMP
    if stamp.is_file() and stamp.read_text(encoding="ascii") == model.fingerprint:
        return folder
    shutil.rmtree(home, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / _ENTRY_FILE).write_text(model.description, encoding="utf-8")
    for part in model.parts:
        target = folder / part.placed
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with target.open("wb") as stream:
                stream.writelines(content_chunks(blobs, part.blob))
        except InputError as error:
            raise InputError(error.problem, where=part.path, hint=error.hint) from error
    stamp.write_text(model.fingerprint, encoding="ascii")
    return folder
