"""Workspaces: the project as of some Git tree, in a folder of its own that shares the DVC cache.

A workspace lives in the project's cache and is kept between runs: files that don't change keep
their times, so that DVC needn't read them again, and `results/` and `dvc.lock` stay. The user's
index, work tree, references and object store are never written: git works with an index and an
object folder of the workspace's own.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flows.git.command import GitError, find_tree, git, git_bytes
from flows.locks.file_lock import file_lock, warn
from flows.project.places import PARAMS_FILE, WORKSPACES, Project
from flows.workspaces import dvc_settings
from flows.workspaces.overlay import NO_OVERLAY, Overlay, lay_over
from stages.errors import InputError

_LOCK_FILE = "dvc.lock"
_KEPT = ("results", ".dvc/cache", ".dvc/tmp", ".dvc/config.local", _LOCK_FILE)
_WHOLE_TREE = ("-c", "core.sparseCheckout=false", "-c", "core.bare=false")


@dataclass(frozen=True, slots=True)
class _Places:
    """The folder, and what git keeps for it, beside it."""

    home: Path
    name: str

    @property
    def folder(self) -> Path:
        return self.home / self.name

    @property
    def lock(self) -> Path:
        return self.home / f".{self.name}.lock"

    @property
    def index(self) -> Path:
        return self.home / f".{self.name}.index"

    @property
    def scratch_index(self) -> Path:
        return self.home / f".{self.name}.scratch-index"

    @property
    def objects(self) -> Path:
        return self.home / f".{self.name}.objects"


@dataclass(frozen=True, slots=True)
class _Repository:
    """The Git repository around the project, and the project's place in it ("" or "FOLDER/")."""

    root: Path
    git_folder: Path
    objects: Path
    prefix: str

    @staticmethod
    def around(root: Path) -> _Repository:
        try:
            asked = ("--show-toplevel", "--absolute-git-dir", "--git-path", "objects")
            top, git_folder, objects = git(root, "rev-parse", *asked).split("\n")
        except GitError as error:
            if "not a git repository" not in error.problem:
                raise
            raise GitError(
                "the project isn't in a Git repository",
                where=str(root),
                hint="`git init` there and commit, or run in a clone",
            ) from error
        prefix = git(root, "rev-parse", "--show-prefix")
        return _Repository(Path(top), Path(git_folder), (root / objects).absolute(), prefix)

    def variables(self, index: Path, objects: Path, work_tree: Path) -> dict[str, str]:
        """By which git reads this repository, and writes elsewhere."""
        alternate = str(self.objects).replace("\\", "\\\\").replace('"', '\\"')
        return {
            "GIT_DIR": str(self.git_folder),
            "GIT_WORK_TREE": str(work_tree),
            "GIT_INDEX_FILE": str(index),
            "GIT_OBJECT_DIRECTORY": str(objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{alternate}"',
        }


@contextmanager
def open_workspace(
    project: Project,
    name: str,
    tree: str | None,
    overlay: Overlay = NO_OVERLAY,
    say: Callable[[str], None] = warn,
) -> Iterator[Path]:
    """Brings the workspace to a tree of the project's repository, and lends it.

    `tree` is a commit or a tree; None means the project's folder as it is, with what isn't
    committed or tracked, but without what Git ignores. While another process holds the workspace
    this waits, and says who holds it.

    Raises:
        GitError: the project is in no Git repository, has no commit, or not this one.
        InputError: the overlay doesn't fit, or the folder can't be written.
    """
    places = _Places(project.cache.absolute() / WORKSPACES, name)
    root = project.root.absolute()
    repository = _Repository.around(root)
    with file_lock(places.lock, f"the workspace {name!r}", say) as lock:
        with _disk_errors(places.folder):
            _Checkout(places, repository, lock).bring_to(tree, overlay)
            dvc_settings.point_at_project(root, places.folder)
        yield places.folder


def workspace_folder(project: Project, name: str) -> Path:
    """Where the workspace of this name lies; it may not exist yet."""
    return _Places(project.cache.absolute() / WORKSPACES, name).folder


@dataclass(frozen=True, slots=True)
class _Checkout:
    """Brings one workspace to a tree. What writes there holds the workspace's lock too, so that
    the next run waits for what a killed one left running."""

    places: _Places
    repository: _Repository
    lock: int

    def bring_to(self, wanted: str | None, overlay: Overlay) -> None:
        places = self.places
        places.folder.mkdir(parents=True, exist_ok=True)
        for index in (places.index, places.scratch_index):  # of a killed holder's git
            _remove(index.with_name(f"{index.name}.lock"))
        self._drop_scratch()
        places.objects.mkdir()
        try:
            tree = self._tree_of_files() if wanted is None else self._tree_of(wanted)
            bare = self._without(tree, [*overlay.paths(), _LOCK_FILE])
            self._remove_strangers(overlay.paths())
            self._check_out(bare)
            self._seed_lock_file(tree)
            params = self._content(tree, PARAMS_FILE) if overlay.params else b""
            lay_over(places.folder, overlay, params)
        finally:
            self._drop_scratch()

    def _tree_of(self, wanted: str) -> str:
        """The tree of the project's folder, without the folders around it."""
        root, prefix = self.repository.root, self.repository.prefix.rstrip("/")
        tree = find_tree(root, wanted)
        if not prefix:
            return tree
        try:
            return git(root, "rev-parse", "--verify", f"{tree}:{prefix}")
        except GitError as error:
            raise GitError(
                f"{wanted!r} has no folder {prefix!r}",
                where=str(root),
                hint="name a commit in which the project is there",
            ) from error

    def _tree_of_files(self) -> str:
        """A tree of the project's files as they are, from an index like the user's."""
        repository, scratch = self.repository, self.places.scratch_index
        find_tree(repository.root, "HEAD")
        users_index = repository.git_folder / "index"
        if users_index.exists():  # so that only files changed since are read
            shutil.copy2(users_index, scratch)
        variables = repository.variables(scratch, self.places.objects, repository.root)
        here = repository.root / repository.prefix
        git(here, "add", "--all", "--", ".", variables=variables, holding=[self.lock])
        prefix = (f"--prefix={repository.prefix}",) if repository.prefix else ()
        return git(here, "write-tree", *prefix, variables=variables)

    def _without(self, tree: str, paths: list[str]) -> str:
        """The tree without paths whose files git shall leave alone."""
        _remove(self.places.scratch_index)
        variables = self._in_folder(self.places.scratch_index)
        reset = (*_WHOLE_TREE, "read-tree", tree)
        git(self.places.folder, *reset, variables=variables, holding=[self.lock])
        literally = {**variables, "GIT_LITERAL_PATHSPECS": "1"}
        drop = (*_WHOLE_TREE, "rm", "--cached", "-f", "-r", "-q", "--ignore-unmatch", "--")
        git(self.places.folder, *drop, *paths, variables=literally, holding=[self.lock])
        return git(self.places.folder, "write-tree", variables=variables)

    def _check_out(self, tree: str) -> None:
        """Writes files that differ from the tree's, and removes those that it no longer has."""
        variables = self._in_folder(self.places.index)
        arguments = (*_WHOLE_TREE, "read-tree", "--reset", "-u", tree)
        git(self.places.folder, *arguments, variables=variables, holding=[self.lock])

    def _remove_strangers(self, lent: list[str]) -> None:
        """Removes what neither the new tree nor the overlay has, but for results and DVC's own:
        before anything is written, so that a full disk has room again."""
        variables = self._in_folder(self.places.scratch_index)
        listed = git_bytes(self.places.folder, "ls-files", "-z", variables=variables)
        tracked = {os.fsdecode(path) for path in listed.split(b"\0")[:-1]}
        _sweep(self.places.folder, tracked, frozenset({*_KEPT, *lent}))

    def _seed_lock_file(self, tree: str) -> None:
        """A new workspace begins with what the tree says has been made."""
        target = self.places.folder / _LOCK_FILE
        if not target.exists() and _LOCK_FILE in self._names(tree):
            target.write_bytes(self._content(tree, _LOCK_FILE))

    def _names(self, tree: str) -> list[str]:
        variables = self._in_folder(self.places.index)
        listed = git_bytes(self.places.folder, "ls-tree", "-z", "--name-only", tree,
                           variables=variables)  # fmt: skip
        return [os.fsdecode(name) for name in listed.split(b"\0")]

    def _content(self, tree: str, path: str) -> bytes:
        variables = self._in_folder(self.places.index)
        arguments = ("cat-file", "blob", f"{tree}:{path}")
        return git_bytes(self.places.folder, *arguments, variables=variables)

    def _in_folder(self, index: Path) -> dict[str, str]:
        return self.repository.variables(index, self.places.objects, self.places.folder)

    def _drop_scratch(self) -> None:
        for left in (self.places.objects, self.places.scratch_index):
            _remove(left)


def _sweep(root: Path, tracked: set[str], kept: frozenset[str]) -> None:
    """Removes files that are in neither set, and folders that hold nothing then.

    Compiled Python stays where its source's folder does: it is checked against the source.
    """
    homes = {os.path.dirname(path) for path in tracked}
    visited = []
    for folder, folders, files in os.walk(root):
        visited.append(folder)
        inside = os.path.relpath(folder, root) if folder != str(root) else ""
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = [
            name
            for name in folders
            if name not in links
            and os.path.join(inside, name) not in kept
            and not (name == "__pycache__" and inside in homes)
        ]
        for name in (*files, *links):
            path = os.path.join(inside, name)
            if path not in tracked and path not in kept:
                os.unlink(os.path.join(folder, name))
    for folder in reversed(visited[1:]):
        if not os.listdir(folder):
            os.rmdir(folder)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    """Errors of the file system in words.

    Raises:
        InputError: instead of an OSError.
    """
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        cure = "free some space on the disk" if full else "let RECIPE_CACHE name another folder"
        raise InputError(
            f"the workspace can't be written: {error.strerror}", where=str(folder), hint=cure
        ) from error
