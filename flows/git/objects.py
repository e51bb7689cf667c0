"""Trees and blobs of a Git repository, read without a work tree."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from flows.git.command import GitError, command_line, environment, git, git_bytes

_CHUNK_BYTES = 1 << 20


@cache
def empty_tree(folder: Path) -> str:
    """The hash of the tree without files, in the repository's own hash function."""
    return git(folder, "hash-object", "-t", "tree", "--stdin")


@dataclass(frozen=True, slots=True)
class TreeFile:
    """A file in a tree. `mode` is git's: 100644, 100755, or 120000 for a symbolic link."""

    path: str
    mode: str
    blob: str
    size_bytes: int

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return self.mode == "120000"


def tree_files(folder: Path, tree: str) -> dict[str, TreeFile]:
    """All files of a tree by path; submodules are left out.

    Raises:
        GitError: no such tree.
    """
    listed = git_bytes(folder, "ls-tree", "-r", "-z", "-l", "--full-tree", tree)
    files = {}
    for line in listed.split(b"\0")[:-1]:
        facts, _, name = line.partition(b"\t")
        mode, kind, blob, size = facts.decode("ascii").split()
        if kind == "blob":
            path = os.fsdecode(name)
            files[path] = TreeFile(path, mode, blob, int(size))
    return files


def matching_paths(folder: Path, tree: str, patterns: tuple[str, ...]) -> list[str]:
    """The tree's paths that glob patterns match; `**/` is any folders, `!` before one excludes.

    Raises:
        GitError: no such tree.
    """
    specs = [f":(glob,exclude){p[1:]}" if p.startswith("!") else f":(glob){p}" for p in patterns]
    asked = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=A")
    found = git_bytes(folder, *asked, empty_tree(folder), tree, "--", *specs)
    return [os.fsdecode(path) for path in found.split(b"\0")[:-1]]


def renamed_paths(
    folder: Path, old_tree: str, new_tree: str, paths: Iterable[str]
) -> dict[str, str]:
    """New path -> old path of those files that moved between two trees, changed by up to half.

    Only `paths` are looked at, old ones and new ones.

    Raises:
        GitError: no such tree.
    """
    asked = ("diff-tree", "-r", "-z", "-M", "-l10000", "--diff-filter=R", "--name-status")
    specs = [f":(literal){path}" for path in paths]
    words = git_bytes(folder, *asked, old_tree, new_tree, "--", *specs).split(b"\0")[:-1]
    triples = zip(words[1::3], words[2::3], strict=True)
    return {os.fsdecode(new): os.fsdecode(old) for old, new in triples}


class Blobs:
    """Reads blobs through one `git cat-file --batch`; a context manager.

    Not to be shared between threads.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Blobs:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process.wait()
            self._process = None

    def chunks(self, blob: str) -> Iterator[bytes]:
        """The content, in pieces of at most a mebibyte; take all of them.

        Raises:
            GitError: no such blob.
        """
        stream = self._ask(blob)
        header = stream.readline().split()
        if len(header) != 3:
            raise GitError(
                f"object {blob} is missing",
                where=str(self.folder),
                hint="the repository is damaged, or a partial clone: `git fsck` there says which",
            )
        left = int(header[2])
        while left:
            chunk = stream.read(min(left, _CHUNK_BYTES))
            if not chunk:
                raise GitError(f"object {blob} ends early", where=str(self.folder))
            left -= len(chunk)
            yield chunk
        stream.read(1)

    def read(self, blob: str) -> bytes:
        """The whole content.

        Raises:
            GitError: no such blob.
        """
        return b"".join(self.chunks(blob))

    def _ask(self, blob: str) -> IO[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                command_line(("cat-file", "--batch")),
                cwd=self.folder,
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(blob.encode("ascii") + b"\n")
        stdin.flush()
        return stdout
