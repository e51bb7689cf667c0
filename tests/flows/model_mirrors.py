"""A repository of models as its mirror sees it, and what changed in few words."""

from __future__ import annotations

from flows.repositories.model_changes import ModelChanges
from flows.repositories.model_repository import Mirror, RepositoryConfig
from tests.flows.git_repositories import Repository


def mirror_of(models: Repository, *patterns: str, registry: str | None = None) -> Mirror:
    config = RepositoryConfig(
        "team", str(models.folder), "main", patterns or ("**/*.onnx",), None, registry
    )
    return Mirror(models.folder / ".git", config)


def summary(found: ModelChanges) -> dict[str, object]:
    return {
        key: value
        for key, value in {
            "added": list(found.added),
            "changed": list(found.changed),
            "renamed": dict(found.renamed),
            "deleted": list(found.deleted),
        }.items()
        if value
    }
