"""Git LFS: files of which Git holds a pointer, and git-lfs the content."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from flows.git.command import command_line, environment
from flows.git.objects import Blobs
from stages.errors import InputError

_POINTER = b"version https://git-lfs.github.com/spec/"
_CHUNK_BYTES = 1 << 20


def content_chunks(blobs: Blobs, blob: str) -> Iterator[bytes]:
    """A blob's content in pieces; where it is an LFS pointer, that of the file it stands for.

    Raises:
        GitError: no such blob.
        InputError: a pointer, and git-lfs is missing or can't fetch the file.
    """
    chunks = blobs.chunks(blob)
    first = next(chunks, b"")
    if first.startswith(_POINTER):
        yield from _smudged(blobs.folder, first + b"".join(chunks))
        return
    yield first
    yield from chunks


def _smudged(folder: Path, pointer: bytes) -> Iterator[bytes]:
    """The file that a pointer stands for, fetched from the origin where it isn't here yet."""
    if shutil.which("git-lfs") is None:
        raise InputError(
            "a Git LFS pointer stands for this file, and git-lfs isn't installed",
            hint="install git-lfs here, or let the model repository hold the file itself",
        )
    process = subprocess.Popen(
        command_line(("lfs", "smudge")),
        cwd=folder,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(pointer)
        process.stdin.close()
        while chunk := process.stdout.read(_CHUNK_BYTES):
            yield chunk
        said = process.stderr.read().decode(errors="replace").strip().splitlines()
    if process.returncode != 0:
        raise InputError(
            f"git-lfs can't fetch this file: {said[-1] if said else 'it gave no reason'}",
            hint="check that the LFS server is reachable: `git lfs fetch` in a clone",
        )
