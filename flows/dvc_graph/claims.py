"""Paths that a run keeps for itself, in the lock file that every `dvc` command reads. Touches DVC's
internals, as flows/dvc_graph/graph.py says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from dvc.lock import LockError
from dvc.repo import Repo
from dvc.rwlock import rwlock

from stages.errors import InputError

_COMMAND = "recipe flow"  # what DVC names, with the number of our process


@contextmanager
def claim(repo: Repo, paths: Sequence[str]) -> Iterator[None]:
    """Keeps `dvc` commands from these paths meanwhile; a killed run's claim means nothing.

    Raises:
        InputError: a `dvc` command uses one now.
    """
    hardlink = bool(repo.config["core"].get("hardlink_lock", False))
    with ExitStack() as held:
        try:
            lock = rwlock(repo.tmp_dir, repo.fs, _COMMAND, [], list(paths), hardlink)
            held.enter_context(lock)
        except LockError as error:
            raise InputError(
                f"another command uses the results: {error}",
                where=repo.root_dir,
                hint="let it come to its end, and run again",
            ) from error
        yield
