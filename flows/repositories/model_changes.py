"""What a range of commits does to the models of a repository."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flows.git.command import git
from flows.git.objects import renamed_paths
from flows.repositories.model_repository import Mirror
from flows.repositories.model_tree import ModelTree, RepositoryModel, read_models
from stages.errors import InputError


@dataclass(frozen=True, slots=True)
class ModelChanges:
    """The models that differ between two commits, by name, each list sorted.

    A model differs where the folder that it is placed as would differ: its .onnx, its external
    data, samples, quantisation file, or what the registry file says about it. `renamed` maps new
    names to old ones. `since` None stands for a repository without models. `models` are all at
    `until`.
    """

    since: str | None
    until: str
    added: tuple[str, ...]
    changed: tuple[str, ...]
    renamed: Mapping[str, str]
    deleted: tuple[str, ...]
    models: Mapping[str, RepositoryModel]
    remarks: tuple[str, ...] = ()

    @property
    def affected(self) -> tuple[str, ...]:
        """The models to run."""
        return tuple(sorted({*self.added, *self.changed, *self.renamed}))

    def kind_of(self, model: str) -> str:
        """In a word, what happened to an affected model."""
        if model in self.renamed:
            return f"renamed from {self.renamed[model]}"
        return "added" if model in self.added else "changed"


def changes(mirror: Mirror, since: str | None, until: str) -> ModelChanges:
    """Compares the models at two commits of a mirror.

    Raises:
        GitError: no such commit.
        InputError: two models of one name, or a registry file that is wrong, at `until`.
    """
    new = read_models(mirror, until)
    old, remarks = _old_models(mirror, since), list(new.remarks)
    if old is None:
        remarks.append(f"the models at {since} can't be told apart: all count as added")
        old = {}
    gone, come = set(old) - set(new.models), set(new.models) - set(old)
    renamed = _renames(mirror, since, new, old, gone, come) if since is not None else {}
    both = set(old) & set(new.models)
    changed = {name for name in both if old[name].fingerprint != new.models[name].fingerprint}
    return ModelChanges(
        since=since,
        until=until,
        added=tuple(sorted(come - set(renamed))),
        changed=tuple(sorted(changed)),
        renamed=renamed,
        deleted=tuple(sorted(gone - set(renamed.values()))),
        models=new.models,
        remarks=tuple(remarks),
    )


def _old_models(mirror: Mirror, since: str | None) -> Mapping[str, RepositoryModel] | None:
    """The models before, or None where that commit breaks a rule that wasn't one then."""
    if since is None:
        return {}
    try:
        return read_models(mirror, since).models
    except InputError:
        return None


def _renames(
    mirror: Mirror,
    since: str,
    new: ModelTree,
    old: Mapping[str, RepositoryModel],
    gone: set[str],
    come: set[str],
) -> dict[str, str]:
    """New name -> old: the same file under another name, or a file that git sees as moved."""
    if not gone or not come:
        return {}
    paths = {*(old[name].path for name in gone), *(new.models[name].path for name in come)}
    moved = renamed_paths(mirror.folder, since, new.commit, sorted(paths))
    left = {old[name].path: name for name in sorted(gone)}
    renamed: dict[str, str] = {}
    for name in sorted(come):
        path = new.models[name].path
        before = left.pop(moved.get(path, path), None)
        if before is not None:
            renamed[name] = before
    return renamed


def last_change(mirror: Mirror, since: str | None, until: str, model: RepositoryModel) -> str:
    """The newest commit that touched the model's files: in the range, or else before it."""
    registry = mirror.config.registry
    paths = [part.path for part in model.parts] + ([registry] if registry else [])
    specs = [f":(literal){path}" for path in paths]
    ranges = [f"{since}..{until}", until] if since is not None else [until]
    asked = ("log", "-1", "--format=%H")
    found = (git(mirror.folder, *asked, commits, "--", *specs) for commits in ranges)
    return next((commit for commit in found if commit), until)
