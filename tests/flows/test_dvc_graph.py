"""The contract with DVC 3.67: what the engine leaves is what `dvc repro` would have left, and each
takes the other's results for its own."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from flows.steps.matrix_request import Standing
from tests.flows.matrix_project import MatrixProject, counted, make_matrix_project, standings

STEPS = 12  # two models on one device


@pytest.fixture(scope="module")
def by_engine(tmp_path_factory: pytest.TempPathFactory) -> MatrixProject:
    """Brought up to date by the engine."""
    project = make_matrix_project(tmp_path_factory.mktemp("a") / "p", ("m0", "m1"), ("h0",))
    assert counted(project.bring_up_to_date()) == {Standing.RAN: STEPS}
    return project


@pytest.fixture(scope="module")
def by_dvc(tmp_path_factory: pytest.TempPathFactory) -> MatrixProject:
    """Brought up to date by `dvc repro`."""
    project = make_matrix_project(tmp_path_factory.mktemp("b") / "p", ("m0", "m1"), ("h0",))
    project.repro()
    return project


@pytest.fixture
def project(by_engine: MatrixProject, tmp_path: Path) -> MatrixProject:
    """A copy of what the engine brought up to date."""
    return by_engine.copied(tmp_path / "p")


def test_the_version_is_the_one_that_the_engine_was_written_for(repository: Path) -> None:
    assert version("dvc").startswith("3.67.")
    assert '"dvc>=3.67,<3.68"' in (repository / "pyproject.toml").read_text()


def test_it_leaves_what_repro_leaves(by_engine: MatrixProject, by_dvc: MatrixProject) -> None:
    assert by_engine.lock() == by_dvc.lock()
    assert by_engine.results() == by_dvc.results()
    assert by_engine.cache() == by_dvc.cache()
    assert by_engine.status() == by_dvc.status() == {}


def test_each_finds_fresh_what_the_other_made(
    project: MatrixProject, by_dvc: MatrixProject, tmp_path: Path
) -> None:
    other = by_dvc.copied(tmp_path / "q")
    assert other.bring_up_to_date() == {}
    project.repro()
    assert other.began() == project.began() == []


def test_each_restores_what_the_other_made(
    project: MatrixProject, by_dvc: MatrixProject, tmp_path: Path
) -> None:
    other = by_dvc.copied(tmp_path / "q")
    for copy in (other, project):
        copy.lose_results()
    assert counted(other.bring_up_to_date()) == {Standing.RESTORED: STEPS}
    project.repro()
    assert other.began() == project.began() == []
    assert other.lock() == project.lock() == by_dvc.lock()
    assert other.results() == project.results() == by_dvc.results()
    assert other.status() == {}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> MatrixProject:
    """One model on one device, brought up to date by the engine."""
    project = make_matrix_project(tmp_path_factory.mktemp("c") / "p", ("m0",), ("h0",))
    project.bring_up_to_date()
    return project


def extra(project: MatrixProject, **keys: object) -> None:
    """A stage of the user's own, behind one of the six."""
    settings = {"cmd": "cp results/h0/m0/gate/gate.json copy.json", "outs": ["copy.json"]}
    deps = {"deps": ["results/h0/m0/gate/gate.json"]}
    project.edit("extra", **(settings | deps | keys))


def uncached_output(project: MatrixProject) -> None:
    extra(project, outs=[{"copy.json": {"cache": False}}])


def uncached_metrics(project: MatrixProject) -> None:
    extra(project, outs=[], metrics=[{"copy.json": {"cache": False}}])


def always_changed(project: MatrixProject) -> None:
    extra(project, always_changed=True)


def persistent_output(project: MatrixProject) -> None:
    extra(project, outs=[{"copy.json": {"persist": True}}])


def two_commands(project: MatrixProject) -> None:
    extra(project, cmd=["touch copy.json", "cat results/h0/m0/gate/gate.json >> copy.json"])


def no_dependency(project: MatrixProject) -> None:
    extra(project, cmd="echo 1 > copy.json", deps=[])


def no_output(project: MatrixProject) -> None:
    extra(project, cmd="echo 1", outs=[])


def neither(project: MatrixProject) -> None:
    extra(project, cmd="echo 1", deps=[], outs=[])


def folder_of_its_own(project: MatrixProject) -> None:
    (project.root / "sub").mkdir()
    gate = "../results/h0/m0/gate/gate.json"
    extra(project, cmd=f"cp {gate} copy.json", wdir="sub", deps=[gate])


def nested_parameters(project: MatrixProject) -> None:
    project.write("other.yaml", "a: {b: [1, 2], c: text}\nd: 1.5\ne: null\n")
    project.write("third.json", '{"x": {"y": 1}}')
    extra(project, params=["gate.max_p99_over_p50", {"other.yaml": ["a.c", "a.b", "e"]}])
    project.edit("gate", params=["gate", {"other.yaml": None}, {"third.json": ["x.y"]}])


def tracked_file(project: MatrixProject) -> None:
    """A file under `dvc add`, as a dependency."""
    project.write("data/file.bin", "some data\n")
    project.dvc("add", "--quiet", "data/file.bin")
    extra(project, deps=["results/h0/m0/gate/gate.json", "data/file.bin"])


VARIANTS = [
    uncached_output,
    uncached_metrics,
    always_changed,
    persistent_output,
    two_commands,
    no_dependency,
    no_output,
    neither,
    folder_of_its_own,
    nested_parameters,
    tracked_file,
]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
def test_other_kinds_of_stages_too(
    variant: Callable[[MatrixProject], None], pair: MatrixProject, tmp_path: Path
) -> None:
    project = pair.copied(tmp_path / "p")
    variant(project)
    twin = project.copied(tmp_path / "q")
    answers = project.bring_up_to_date()
    assert answers["extra"].standing is Standing.RAN, answers["extra"].message
    twin.repro()
    assert project.lock() == twin.lock()
    assert project.cache() == twin.cache()
    assert project.status() == twin.status()
    again = {"extra": Standing.RAN} if variant in (always_changed, neither) else {}
    assert standings(project.bring_up_to_date()) == again
    assert standings(twin.bring_up_to_date()) == again
