"""Model repositories: other Git repositories that hold models, and our mirrors of them.

`models/repositories.yaml` says which (docs/commits.md). A mirror is a bare copy of all of
a repository's references, in the project's cache; it may be deleted at any time.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from flows.git.command import GitError, find_commit, git, has_object, without_secrets
from flows.locks.file_lock import file_lock, warn
from flows.project.places import Project
from stages.errors import InputError

REPOSITORIES_FILE = "models/repositories.yaml"
NAME = r"^[A-Za-z0-9][\w.\-]*$"
"""What repositories, and models in a registry file, may be called."""
_NO_OPTION = r"^[^-\x00][^\x00]*$"
_STALE_LOCK_SECONDS = 10.0
_PATIENCE = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60")
"""A server that sends less than 1000 bytes a second for a minute is given up."""
_FORM = "see docs/commits.md for the keys"


@dataclass(frozen=True, slots=True)
class RepositoryConfig:
    """What repositories.yaml says about one repository.

    `models` are globs (`**/` for any folders, `!` before one that excludes); `hardware` None means
    the project's matrix; `registry` is a YAML file in the repository, or None. `poll` is a schedule
    in cron's form on which `recipe serve` looks for commits, or None.
    """

    name: str
    url: str
    branch: str
    models: tuple[str, ...]
    hardware: tuple[str, ...] | None
    registry: str | None
    poll: str | None = None

    @property
    def shown_url(self) -> str:
        """The address without secrets, for people and reports."""
        return without_secrets(self.url)


@dataclass(frozen=True, slots=True)
class Mirror:
    """Our bare copy of a model repository."""

    folder: Path
    config: RepositoryConfig

    @property
    def home(self) -> Path:
        """The folder of all mirrors, and of what we know about them."""
        return self.folder.parent

    def head(self) -> str:
        """The commit at the end of the configured branch.

        Raises:
            GitError: no such branch.
        """
        branch, where = self.config.branch, self.config.shown_url
        try:
            return find_commit(self.folder, f"refs/heads/{branch}", where=where)
        except GitError as error:
            if "no commit yet" in error.problem:
                raise
            found = git(self.folder, "for-each-ref", "--format=%(refname:short)", "refs/heads")
            names = ", ".join(found.split()[:8]) or "none"
            raise GitError(
                f"the model repository {self.config.name!r} has no branch {branch!r}",
                where=where,
                hint=f"set `branch` in {REPOSITORIES_FILE} to one of: {names}",
            ) from error

    def commit(self, revision: str) -> str:
        """The commit that a branch, tag or hash of the repository names.

        Raises:
            GitError: none.
        """
        return find_commit(self.folder, revision, where=self.config.shown_url)

    def has(self, commit: str) -> bool:
        """Whether the mirror holds this commit."""
        return has_object(self.folder, commit)


def load_repositories(project: Project) -> Mapping[str, RepositoryConfig]:
    """The configured repositories by name; none where there is no file.

    Raises:
        InputError: the file isn't YAML, or a key is wrong.
    """
    path = project.root / REPOSITORIES_FILE
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the file can't be read: {error}", where=str(path)) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise InputError("not YAML", where=f"{path}{line}", hint=_FORM) from error
    try:
        document = _Document.model_validate({"repositories": content or {}})
    except ValidationError as error:
        raise _wrong_key(error, path) from error
    return {name: it.config(name, project.root) for name, it in document.repositories.items()}


def find_repository(project: Project, name: str) -> RepositoryConfig:
    """The repository of this name.

    Raises:
        InputError: none, or repositories.yaml is wrong.
    """
    known = load_repositories(project)
    if name not in known:
        names = ", ".join(known) or "none yet"
        raise InputError(
            f"no model repository {name!r}",
            where=str(project.root / REPOSITORIES_FILE),
            hint=f"configured: {names}; add it there, as docs/commits.md says",
        )
    return known[name]


def open_mirror(
    project: Project, config: RepositoryConfig, say: Callable[[str], None] = warn
) -> Mirror:
    """The mirror, brought up to date. Waits where another process does that already.

    Raises:
        GitError: the repository can't be reached, or lacks part of its history.
    """
    home = project.cache.absolute() / "repositories"
    mirror = Mirror(home / f"{config.name}.git", config)
    with file_lock(home / f"{config.name}.lock", f"the mirror of {config.name!r}", say):
        mirror.folder.mkdir(parents=True, exist_ok=True)
        _clear_stale_locks(mirror.folder)
        git(mirror.folder, "init", "--bare", "--quiet", "--template=")
        git(mirror.folder, "symbolic-ref", "HEAD", f"refs/heads/{config.branch}")
        git(mirror.folder, "config", "remote.origin.url", config.url)  # for git-lfs
        _fetch(mirror)
    return mirror


def _fetch(mirror: Mirror) -> None:
    """All references as they are there; what vanished there vanishes here."""
    config = mirror.config
    wanted = (*_PATIENCE, "fetch", "--quiet", "--prune", "--force", "--no-write-fetch-head")
    all_of_it = ("--update-shallow", "--", config.url, "+refs/*:refs/*")
    try:
        try:
            git(mirror.folder, *wanted, *all_of_it)
        except GitError as error:
            if "lock" not in error.problem:
                raise
            _clear_stale_locks(mirror.folder)  # of a killed process's git, which lived on a little
            git(mirror.folder, *wanted, *all_of_it)
        if git(mirror.folder, "rev-parse", "--is-shallow-repository") == "true":
            shutil.rmtree(mirror.folder)  # it would stay shallow
            raise GitError("it is shallow", hint=_UNSHALLOW)
    except GitError as error:
        shallow = "shallow" in error.problem
        raise GitError(
            f"the model repository {config.name!r} can't be fetched: {error.problem}",
            where=config.shown_url,
            hint=_UNSHALLOW if shallow else error.hint or "check it with `git ls-remote ADDRESS`",
        ) from error


_UNSHALLOW = "name a repository with its whole history, or run `git fetch --unshallow` there"


def _clear_stale_locks(folder: Path) -> None:
    """Deletes the lock files of a git that was killed.

    Nobody else writes here, but a killed process's own git may live a little longer: a lock counts
    as left over once it is ten seconds old.
    """
    found = [*folder.glob("*.lock"), *folder.glob("refs/**/*.lock")]
    for path in found:
        try:
            age = time.time() - path.stat().st_mtime
            time.sleep(min(_STALE_LOCK_SECONDS, max(0.0, _STALE_LOCK_SECONDS - age)))
            path.unlink()
        except FileNotFoundError:
            continue


class _Repository(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    url: Annotated[str, Field(pattern=_NO_OPTION)]
    branch: Annotated[str, Field(pattern=_NO_OPTION)] = "main"
    models: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] = [
        "**/*.onnx"
    ]
    hardware: Annotated[list[str], Field(min_length=1)] | None = None
    registry: Annotated[str, Field(pattern=r"^[^/\x00]")] | None = None
    poll: str | None = None

    def config(self, name: str, root: Path) -> RepositoryConfig:
        hardware = tuple(self.hardware) if self.hardware is not None else None
        url = _absolute(self.url, root)
        models = tuple(self.models)
        return RepositoryConfig(name, url, self.branch, models, hardware, self.registry, self.poll)


class _Document(BaseModel):
    repositories: dict[Annotated[str, Field(pattern=NAME)], _Repository]


def _absolute(url: str, root: Path) -> str:
    """A path is relative to the project; `HOST:PATH` and `SCHEME://` are addresses."""
    is_address = "://" in url or ":" in url.partition("/")[0]
    return url if is_address else str((root.absolute() / Path(url).expanduser()).resolve())


def _wrong_key(error: ValidationError, path: Path) -> InputError:
    first = error.errors()[0]
    shown = first["input"]
    value = f" (value: {shown!r})" if isinstance(shown, str | int | float | bool) else ""
    return InputError(
        f"{first['msg'].lower()}{value}", where=f"{path}, key {key_of(first)}", hint=_FORM
    )


def key_of(fault: ErrorDetails) -> str:
    """Where the fault lies in a file that is read as one field of a document, by dotted key."""
    return ".".join(str(part) for part in fault["loc"][1:] if part != "[key]") or "(top)"
