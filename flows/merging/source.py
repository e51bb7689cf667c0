"""What a merge compares: the trees and overlays of the workspaces of its base and its head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows.git.command import GitError, find_commit, git, merge_base
from flows.project.params import MODELS_KEY, parse_params
from flows.project.places import PARAMS_FILE, Project
from flows.repositories.all_models import RepositoryModels
from flows.workspaces.overlay import NO_OVERLAY, Overlay
from stages.errors import InputError

_SHORT = 10
_GRAPH = "dvc.yaml"
_MEASURED = ("benchmark.", "thermal_stress.")
_LIMITS = frozenset({"thermal_stress.max_p99_over_p50"})
_LIMIT, _DEFAULT_LIMIT = "gate.max_p99_increase_percent", 5


@dataclass(frozen=True, slots=True)
class Side:
    """One side: how it is called, what its workspace is, and the models that can't be placed.

    `tree` None means the project's folder as it is. `is_there` is false where there is nothing that
    could be run, which `MergeSource.notes` explain.
    """

    name: str
    tree: str | None
    overlay: Overlay = NO_OVERLAY
    unplaced: Mapping[str, InputError] = field(default_factory=dict)
    is_there: bool = True


@dataclass(frozen=True, slots=True)
class MergeSource:
    """Base and head of a merge.

    `renamed` maps new model names to old ones. `deleted` are pairs' models that head no longer has,
    and `untouched` counts pairs that were left out of both matrices, both only known for model
    repositories; elsewhere the matrices tell. `devices` are those that unplaced models stand for.
    """

    base: Side
    head: Side
    repository: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)
    deleted: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    untouched: int = 0
    limit_percent: int = _DEFAULT_LIMIT
    notes: tuple[str, ...] = ()


def project_source(
    project: Project, base: str, head: str | None, others: RepositoryModels
) -> MergeSource:
    """The project's own repository: head, or the folder as it is, against where it left base; with
    the models of model repositories on both sides, for a change may concern those too.

    Raises:
        GitError: no such commit, or the two share no history.
        InputError: head's params.yaml is wrong.
    """
    root = project.root
    base_tip = find_commit(root, base)
    head_commit = find_commit(root, head or "HEAD")
    forked = fork(root, base_tip, head_commit, base, head or "HEAD")
    params = _params_at(root, head_commit) if head else read_params(project.params.read_bytes())
    old_params = _readable_params_at(root, forked)
    is_there = has_path(root, forked, _GRAPH)
    seeds = _seeds_of(params, old_params) if is_there else {}
    name = named(head, head_commit) if head else _here(root, head_commit)
    return MergeSource(
        base=Side(
            named(base, forked), forked, _overlay(seeds, old_params, others), is_there=is_there
        ),
        head=Side(name, head_commit if head else None, _overlay({}, params, others)),
        limit_percent=limit_of(params),
        notes=(
            *_missing_graph(is_there, forked),
            *_notes(params, old_params, seeds, is_there),
            *others.remarks,
        ),
    )


def _overlay(
    seeds: Mapping[str, object], params: Mapping[str, Any], others: RepositoryModels
) -> Overlay:
    if not others.folders:
        return Overlay(params=seeds)
    models = {MODELS_KEY: others.names(params.get(MODELS_KEY) or [])}
    return Overlay(params={**seeds, **models}, models=others.folders)


def fork(folder: Path, base: str, head: str, base_name: str, head_name: str) -> str:
    """The commit at which head left base.

    Raises:
        GitError: they share none.
    """
    found = merge_base(folder, base, head)
    if found is None:
        raise GitError(
            f"{base_name!r} and {head_name!r} share no commit",
            where=str(folder),
            hint="fetch the whole history (`git fetch --unshallow`; in GitHub Actions "
            "`fetch-depth: 0` of actions/checkout), or name another base",
        )
    return found


def named(revision: str, commit: str) -> str:
    """`main (1a2b3c4d5e)`: commits are told by their hash, branches move."""
    short = commit[:_SHORT]
    return short if commit.startswith(revision) else f"{revision} ({short})"


def _here(root: Path, commit: str) -> str:
    changed = git(root, "status", "--porcelain", "--untracked-files=normal", "--", ".")
    return f"{commit[:_SHORT]} with local changes" if changed else commit[:_SHORT]


def has_path(root: Path, commit: str, path: str) -> bool:
    """Whether a commit has a file, in the project's place in its repository."""
    return bool(git(root, "ls-tree", "--name-only", commit, "--", path))


def _params_at(root: Path, commit: str) -> Mapping[str, Any]:
    """params.yaml of a commit; empty where it has none."""
    if not has_path(root, commit, PARAMS_FILE):
        return {}
    return read_params(git(root, "show", f"{commit}:./{PARAMS_FILE}").encode())


def _readable_params_at(root: Path, commit: str) -> Mapping[str, Any]:
    """Empty where they can't be read either: whether base can be run is found out later."""
    try:
        return _params_at(root, commit)
    except InputError:
        return {}


def read_params(content: bytes) -> Mapping[str, Any]:
    """The values by dotted key, of sections that are mappings.

    Raises:
        InputError: it isn't YAML.
    """
    document = parse_params(content)
    sections = document if isinstance(document, dict) else {}
    return {
        f"{section}.{key}": value
        for section, values in sections.items()
        if isinstance(values, dict)
        for key, value in values.items()
    }


def limit_of(params: Mapping[str, Any]) -> int:
    """How many percent P99 may grow.

    Raises:
        InputError: it isn't a whole number from 0 up.
    """
    found = params.get(_LIMIT, _DEFAULT_LIMIT)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise InputError(
            f"{_LIMIT} is {found!r}", where=PARAMS_FILE, hint="give a whole number from 0 up"
        )
    return found


def _seeds_of(params: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, object]:
    """How head measures, where base measures otherwise: only equal weather can be compared."""
    return {
        key: params[key]
        for key, before in old.items()
        if key.startswith(_MEASURED)
        and key not in _LIMITS
        and key in params
        and params[key] != before
    }


def _missing_graph(is_there: bool, commit: str) -> Iterator[str]:
    if not is_there:
        yield (
            f"base {commit[:_SHORT]} has no {_GRAPH}, so there is nothing to compare with: every "
            "pair counts as new"
        )


def _notes(
    params: Mapping[str, Any], old: Mapping[str, Any], seeds: Mapping[str, object], compared: bool
) -> Iterator[str]:
    before, after = old.get(_LIMIT, _DEFAULT_LIMIT), limit_of(params)
    if compared and before != after:
        yield f"{_LIMIT} is {before} in base and {after} in head; head's holds"
    for key, value in seeds.items():
        yield f"{key} is {old[key]} in base and {value} in head; both were measured with head's"
