"""The models of all model repositories: what nights and changes of the pipeline concern."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from flows.merging.source import project_source
from flows.project.places import Project
from flows.project.requests import Pair
from flows.repositories.all_models import RepositoryModels, models_of_repositories
from tests.flows.git_repositories import Repository, make_project, tiny_model

pytestmark = pytest.mark.usefixtures("surroundings")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project that follows two repositories."""
    _, made = make_project(tmp_path / "project")
    for name, models in {"vision": ("cat", "dog"), "sound": ("dog", "bell")}.items():
        repository = Repository.make(tmp_path / name)
        for model in models:
            repository.write(f"{model}.onnx", tiny_model()[0])
        repository.commit()
    configured = {
        "sound": {"url": str(tmp_path / "sound"), "hardware": ["chip_b"]},
        "vision": {"url": str(tmp_path / "vision")},
    }
    (made.root / "models").mkdir(exist_ok=True)
    (made.root / "models/repositories.yaml").write_text(yaml.safe_dump(configured))
    return made


def found_in(project: Project, *own: str) -> RepositoryModels:
    """What is lent, for a matrix with these models."""
    with models_of_repositories(project, own, lambda _: None) as found:
        assert all((folder / "model.yaml").is_file() for folder in found.folders.values())
        return found


def test_each_model_comes_once_with_its_devices(project: Project) -> None:
    found = found_in(project, "own")
    assert found.names(["own"]) == ["own", "bell", "cat", "dog"]
    assert found.devices(["chip_a"]) == ["chip_a", "chip_b"]
    assert found.pairs(["own"], ["chip_a"]) == {
        Pair("own", "chip_a"),
        Pair("cat", "chip_a"),
        Pair("bell", "chip_b"),
        Pair("dog", "chip_b"),
    }
    assert found.remarks == ["dog of vision is left out: another model has that name"]


def test_the_matrix_names_its_own_models_first(project: Project) -> None:
    found = found_in(project, "cat", "bell")
    assert sorted(found.folders) == ["dog"]
    assert len(found.remarks) == 3


def test_a_repository_that_is_gone_hides_no_other(project: Project, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "vision")
    found = found_in(project)
    assert sorted(found.folders) == ["bell", "dog"]
    assert [remark[:35] for remark in found.remarks] == ["the models of vision are left out: "]


def test_a_change_of_the_pipeline_concerns_them_on_both_sides(project: Project) -> None:
    (project.root / "params.yaml").write_text("matrix: {models: [own], hardware: [chip_a]}\n")
    with models_of_repositories(project, ["own"], lambda _: None) as found:
        source = project_source(project, "HEAD", None, found)
    assert source.head.overlay.params == {"matrix.models": ["own", "bell", "cat", "dog"]}
    assert sorted(source.base.overlay.models) == ["bell", "cat", "dog"]
    assert source.notes[-1] == "dog of vision is left out: another model has that name"


def test_a_project_without_repositories_is_left_alone(tmp_path: Path) -> None:
    _, project = make_project(tmp_path / "project")
    found = found_in(project, "own")
    assert (found.names(["own"]), found.remarks) == (["own"], [])
    assert project_source(project, "HEAD", None, found).head.overlay.params == {}
