"""What a merge in a model repository compares: its models before and after, in one project."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from flows.locks.file_lock import file_lock
from flows.merging.source import MergeSource, Side, fork, limit_of, named, read_params
from flows.project.params import HARDWARE_KEY, MODELS_KEY
from flows.project.places import Project
from flows.repositories.model_changes import ModelChanges, changes
from flows.repositories.model_placing import place_models
from flows.repositories.model_repository import (
    Mirror,
    RepositoryConfig,
    find_repository,
    open_mirror,
)
from flows.repositories.model_tree import read_models
from flows.workspaces.overlay import Overlay


@contextmanager
def repository_source(
    project: Project, name: str, base: str, head: str | None, say: Callable[[str], None]
) -> Iterator[MergeSource]:
    """A model repository's commits on both sides, the project as it is on each.

    Raises:
        GitError: no such commit, the two share no history, or the repository can't be reached.
        InputError: no such repository, its models are wrong in head, or a file can't be written.
    """
    config = find_repository(project, name)
    mirror = open_mirror(project, config, say)
    base_tip = mirror.commit(base)
    head_commit = mirror.commit(head) if head else mirror.head()
    forked = fork(mirror.folder, base_tip, head_commit, base, head or config.branch)
    found = changes(mirror, forked, head_commit)
    params = read_params(project.params.read_bytes())
    devices = tuple(config.hardware or params.get(HARDWARE_KEY) or ())
    home = project.cache.absolute() / "placed"
    with file_lock(home / f"{name}.lock", f"the models of {name!r}", say):
        old = _side(mirror, forked, _old_names(mirror, found), home / f"{name}-base", config)
        new = _side(mirror, head_commit, found.affected, home / f"{name}-head", config)
        overlay = replace(new.overlay, baselines=dict(found.renamed))
        yield MergeSource(
            base=replace(old, name=named(base, forked)),
            head=replace(new, name=named(head or config.branch, head_commit), overlay=overlay),
            repository=name,
            renamed=found.renamed,
            deleted=found.deleted,
            devices=devices,
            untouched=(len(found.models) - len(found.affected)) * len(devices),
            limit_percent=limit_of(params),
            notes=found.remarks,
        )


def _old_names(mirror: Mirror, found: ModelChanges) -> tuple[str, ...]:
    """What the affected models are called in base, of those that it has."""
    return tuple(sorted({*found.changed, *found.renamed.values()}))


def _side(
    mirror: Mirror, commit: str, names: tuple[str, ...], home: Path, config: RepositoryConfig
) -> Side:
    known = read_models(mirror, commit).models if names else {}
    placed, unplaced = place_models(mirror, [known[name] for name in names], home)
    params: dict[str, object] = {MODELS_KEY: sorted(placed)}
    if config.hardware is not None:
        params[HARDWARE_KEY] = list(config.hardware)
    return Side("", None, Overlay(params=params, models=placed), unplaced, bool(placed))
