"""Hashes of paths, each made once a run, and made again only where the files' dates say so."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

_UNSEEN = frozenset({"__pycache__"})  # .dvcignore leaves it out of every hash

Signature = tuple[Hashable, ...]

_Print = TypeVar("_Print")


@dataclass(frozen=True, slots=True)
class _Seen(Generic[_Print]):
    signature: Signature
    print: _Print


class PathPrints(Generic[_Print]):
    """What lies at each path, by key; `make` hashes it. Not for several threads at once."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, _Seen[_Print]] = {}

    def look(self, key: Hashable, path: str, make: Callable[[], _Print]) -> _Print:
        """The print made last; made now where there is none."""
        seen = self._seen.get(key)
        return seen.print if seen is not None else self._make(key, signature_of(path), make)

    def look_again(self, key: Hashable, path: str, make: Callable[[], _Print]) -> _Print:
        """The print made last, unless a file was written, added or removed since."""
        seen, now = self._seen.get(key), signature_of(path)
        if seen is not None and seen.signature == now:
            return seen.print
        return self._make(key, now, make)

    def note(self, key: Hashable, path: str, made: _Print) -> None:
        """Takes a print that is known to be of what lies there now."""
        self._seen[key] = _Seen(signature_of(path), made)

    def _make(self, key: Hashable, signature: Signature, make: Callable[[], _Print]) -> _Print:
        made = make()
        self._seen[key] = _Seen(signature, made)
        return made


def signature_of(path: str) -> Signature:
    """Dates, sizes and inodes of a file, or of all files below a folder; empty where nothing is."""
    try:
        state = os.stat(path)
    except OSError:
        return ()
    own = (state.st_mtime_ns, state.st_size, state.st_ino)
    if not os.path.isdir(path):
        return own
    rows: list[Hashable] = []
    _walk(path, rows)
    return tuple(rows)


def _walk(folder: str, rows: list[Hashable]) -> None:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name in _UNSEEN:
                continue
            if entry.is_dir():
                rows.append(entry.name)
                _walk(entry.path, rows)
            else:
                state = entry.stat()
                rows.append((entry.name, state.st_mtime_ns, state.st_size, state.st_ino))
