"""Digests of files, worked out while the bytes stream by."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from stages.package.manifest import FileFacts

CHUNK_BYTES = 1 << 22


class HashingSink:
    """Writes to a file and keeps the digest of what went through."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._size = 0

    def write(self, data: Any) -> None:
        """Write a buffer, a part at a time."""
        view = memoryview(data)
        if not view.nbytes:
            return  # an empty view can't be cast
        view = view.cast("B")
        for start in range(0, len(view), CHUNK_BYTES):
            part = view[start : start + CHUNK_BYTES]
            self._hash.update(part)
            self._file.write(part)
        self._size += len(view)

    def facts(self) -> FileFacts:
        """Length and digest so far."""
        return FileFacts(self._size, self._hash.hexdigest())


def file_facts(path: Path) -> FileFacts:
    """Length and digest of a file, read a part at a time.

    Raises:
        OSError: it can't be read.
    """
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        for part in iter(lambda: file.read(CHUNK_BYTES), b""):
            digest.update(part)
            size += len(part)
    return FileFacts(size, digest.hexdigest())


@contextmanager
def mapped(path: Path) -> Iterator[memoryview]:
    """A file's bytes where the system keeps them, without a copy, as long as the context lasts.

    Raises:
        OSError: it can't be read.
    """
    with path.open("rb") as file:
        if not path.stat().st_size:  # nothing can't be mapped
            yield memoryview(b"")
            return
        with (
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages,
            memoryview(pages) as view,
        ):
            yield view


def load_hashed(path: Path) -> tuple[NDArray[np.uint8], FileFacts]:
    """A file's bytes and their digest, from one reading: what was hashed is what is used.

    Raises:
        OSError: it can't be read.
    """
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        data = np.empty(path.stat().st_size, np.uint8)
        for part in _filled(file, data):
            digest.update(part)
            done += len(part)
    data.flags.writeable = False
    return data[:done], FileFacts(done, digest.hexdigest())


def _filled(file: BinaryIO, data: NDArray[np.uint8]) -> Iterator[memoryview]:
    """The parts of `data` as they are filled from a file, up to the file's end."""
    view, start = memoryview(data.data), 0
    while start < len(view):
        count = file.readinto(view[start : start + CHUNK_BYTES])  # type: ignore[attr-defined]
        if not count:
            return
        yield view[start : start + count]
        start += count
