"""The models of all model repositories, for what concerns every recipe: nights, and changes of the
pipeline itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from flows.locks.file_lock import file_lock
from flows.project.places import Project
from flows.project.requests import Pair
from flows.repositories.model_placing import place_models
from flows.repositories.model_repository import load_repositories, open_mirror
from flows.repositories.model_tree import read_models
from stages.errors import RecipeError


@dataclass(slots=True)
class RepositoryModels:
    """Models by name: the folder that holds each, and the devices that its repository names (None:
    the matrix's). `remarks` says what was left out, and why."""

    folders: dict[str, Path] = field(default_factory=dict)
    hardware: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def names(self, own: Sequence[str]) -> list[str]:
        """The matrix's models: its own, then these."""
        return [*own, *sorted(self.folders)]

    def devices(self, own: Sequence[str]) -> list[str]:
        """The matrix's devices: its own, then those that only a repository names."""
        named = [device for devices in self.hardware.values() for device in devices or ()]
        return list(dict.fromkeys([*own, *sorted(named)]))

    def pairs(self, models: Sequence[str], devices: Sequence[str]) -> frozenset[Pair]:
        """The matrix's own pairs, and these models each on its devices."""
        pairs = {Pair(model, device) for model in models for device in devices}
        for model, named in self.hardware.items():
            pairs |= {Pair(model, device) for device in named or devices}
        return frozenset(pairs)


@contextmanager
def models_of_repositories(
    project: Project, own: Sequence[str], say: Callable[[str], None]
) -> Iterator[RepositoryModels]:
    """The models at the head of each repository's branch, placed and lent.

    A repository that can't be had or read is left out, as is a model that can't be placed, or whose
    name another has: each with a remark. `own` are the matrix's models.

    Raises:
        InputError: models/repositories.yaml is wrong.
    """
    found = RepositoryModels()
    taken = set(own)
    with ExitStack() as locks:
        for name, config in load_repositories(project).items():
            home = project.cache.absolute() / "placed"
            locks.enter_context(
                file_lock(home / f"{name}.all.lock", f"the models of {name!r}", say)
            )
            try:
                mirror = open_mirror(project, config, say)
                models = read_models(mirror, mirror.head()).models
                free = [models[model] for model in sorted(models) if model not in taken]
                placed, failed = place_models(mirror, free, home / f"{name}-all")
            except RecipeError as error:
                found.remarks.append(f"the models of {name} are left out: {error.problem}")
                continue
            _remark(found, name, sorted(taken.intersection(models)), failed)
            found.folders |= placed
            found.hardware |= dict.fromkeys(placed, config.hardware)
            taken |= set(placed)
        yield found


def _remark(
    found: RepositoryModels,
    repository: str,
    taken: Sequence[str],
    failed: Mapping[str, RecipeError],
) -> None:
    for model in taken:
        found.remarks.append(f"{model} of {repository} is left out: another model has that name")
    for model, error in failed.items():
        found.remarks.append(f"{model} of {repository} is left out: {error.problem}")
