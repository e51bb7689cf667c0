"""Writes a folder so that no one ever sees half of one."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from stages.errors import InputError
from stages.package.digest import HashingSink
from stages.package.manifest import FileFacts

Content = Callable[[HashingSink], object]
_Filled = TypeVar("_Filled")


def replace_folder(
    folder: Path, what: str, marks: tuple[str, ...], fill: Callable[[Path], _Filled]
) -> _Filled:
    """Let `fill` write a fresh folder, and put it in the place of `folder`; returns what it gave.

    All is written to a folder beside, flushed to the disk, and renamed: at every instant `folder`
    holds the old one or the new one, or (between two renames) nothing, never half of one. An
    interruption leaves the old one, and nothing else. Only an empty folder, or one that holds a
    file of `marks`, is replaced. `what` is the word for it in messages.

    Raises:
        InputError: the folder can't be written, or holds something else.
    """
    target = folder.absolute()
    token = secrets.token_hex(4)
    fresh = target.parent / f".{target.name}.{token}.partial"
    previous = target.parent / f".{target.name}.{token}.previous"
    try:
        _refuse_other_content(target, what, marks)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            fresh.mkdir()
            filled = fill(fresh)
            _flush_folder(fresh)
            _put_in_place(fresh, target, previous)
        finally:
            _remove(fresh)
            _drop_previous(previous, target)  # again: an interruption may have hit the first time
    except OSError as error:
        raise InputError(
            f"the {what} can't be written: {error}",
            where=str(folder),
            hint="choose another output folder, or make room and give yourself the right to write",
        ) from error
    return filled


def write_file(path: Path, content: Content) -> FileFacts:
    """Write a new file and flush it; returns its length and digest."""
    with path.open("xb") as file:
        sink = HashingSink(file)
        content(sink)
        file.flush()
        os.fsync(file.fileno())
    return sink.facts()


def _refuse_other_content(target: Path, what: str, marks: tuple[str, ...]) -> None:
    """A folder that is neither empty nor one of ours isn't ours to replace, nor is a file."""
    is_ours = any((target / mark).is_file() for mark in marks)
    if target.is_dir() and (is_ours or not any(target.iterdir())):
        return
    for parent in target.parents:
        if parent.exists() and not parent.is_dir():
            raise InputError(
                f"the {what} can't be written: {parent} is no folder",
                where=str(target),
                hint="choose another output folder",
            )
    if target.exists() or target.is_symlink():
        raise InputError(
            f"there is something else where the {what} should go",
            where=str(target),
            hint="choose another output folder, or move away what is there",
        )


def _put_in_place(fresh: Path, target: Path, previous: Path) -> None:
    """Rename `fresh` to `target`; what was there goes to `previous`, and comes back on failure."""
    try:
        if target.exists():
            os.rename(target, previous)
        os.rename(fresh, target)
    except BaseException:
        if previous.exists() and not target.exists():
            os.rename(previous, target)
        raise
    finally:
        _drop_previous(previous, target)
    _flush_folder(target.parent)


def _drop_previous(previous: Path, target: Path) -> None:
    """The old package goes only where there's another in its place."""
    if target.exists():
        _remove(previous)


def _remove(folder: Path) -> None:
    """Remove a folder, if it's there; an interruption waits until it's gone."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _flush_folder(folder: Path) -> None:
    """Make renames and new names in a folder last, on systems that let folders be flushed."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
