"""Mirrors of model repositories: fetching, and everything that can be wrong with one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.git.command import GitError, is_ancestor, merge_base
from flows.project.places import Project
from flows.repositories.model_repository import (
    Mirror,
    RepositoryConfig,
    find_repository,
    load_repositories,
    open_mirror,
)
from stages.errors import InputError
from tests.flows.git_repositories import Repository

pytestmark = pytest.mark.usefixtures("surroundings")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "project/models").mkdir(parents=True)
    return Project(tmp_path / "project")


@pytest.fixture
def models(tmp_path: Path) -> Repository:
    repository = Repository.make(tmp_path / "models of the team")
    repository.write("net.onnx", "1")
    repository.commit()
    return repository


def config_of(url: str | Path, branch: str = "main") -> RepositoryConfig:
    return RepositoryConfig("team", str(url), branch, ("**/*.onnx",), None, None)


def configure(project: Project, text: str) -> None:
    (project.root / "models/repositories.yaml").write_text(text)


def test_the_file_is_optional_and_its_defaults(project: Project) -> None:
    assert load_repositories(project) == {}
    configure(project, "")
    assert load_repositories(project) == {}
    configure(project, "team:\n  url: ../there\nfar:\n  url: git@host.example:a/b.git\n"
              "  branch: trunk\n  models: ['a/*.onnx', '!a/x.onnx']\n  hardware: [npu_a]\n"
              "  registry: reg.yaml\n")  # fmt: skip
    loaded = load_repositories(project)
    there = str(project.root.parent / "there")
    assert loaded["team"] == RepositoryConfig("team", there, "main", ("**/*.onnx",), None, None)
    assert loaded["far"] == RepositoryConfig(
        "far",
        "git@host.example:a/b.git",
        "trunk",
        ("a/*.onnx", "!a/x.onnx"),
        ("npu_a",),
        "reg.yaml",
    )


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("team: {}", "team.url"),
        ("team: {url: --upload-pack=evil}", "team.url"),
        ("team: {url: a, branch: -x}", "team.branch"),
        ("team: {url: a, modles: [b]}", "team.modles"),
        ("team: {url: a, models: []}", "team.models"),
        ("'../x': {url: a}", "../x"),
        ("[1, 2]", "(top)"),
        ("team: [", "repositories.yaml:1"),
    ],
)
def test_wrong_files_name_the_key(project: Project, text: str, key: str) -> None:
    configure(project, text)
    with pytest.raises(InputError) as caught:
        load_repositories(project)
    assert key in caught.value.where
    assert caught.value.hint


def test_an_unknown_name_lists_the_known(project: Project) -> None:
    configure(project, "team: {url: ../there}\n")
    with pytest.raises(InputError, match="no model repository 'taem'") as caught:
        find_repository(project, "taem")
    assert "team" in caught.value.hint


def test_a_mirror_follows_its_origin(project: Project, models: Repository) -> None:
    mirror = open_mirror(project, config_of(models.folder))
    first = models.git("rev-parse", "HEAD")
    assert mirror.head() == first
    models.write("net.onnx", "2")
    second = models.commit()
    models.git("branch", "extra")
    models.git("tag", "v1")
    mirror = open_mirror(project, config_of(models.folder))
    assert mirror.head() == second == mirror.commit("extra") == mirror.commit("v1")
    assert mirror.commit("HEAD~1") == first
    models.git("branch", "-D", "extra")
    mirror = open_mirror(project, config_of(models.folder))
    with pytest.raises(GitError, match="no commit 'extra'"):
        mirror.commit("extra")


def test_a_force_push_keeps_what_was_there_before(project: Project, models: Repository) -> None:
    first = models.git("rev-parse", "HEAD")
    models.write("net.onnx", "2")
    lost = models.commit()
    open_mirror(project, config_of(models.folder))
    models.git("reset", "-q", "--hard", first)
    models.write("net.onnx", "3")
    head = models.commit()
    mirror = open_mirror(project, config_of(models.folder))
    assert mirror.head() == head
    assert mirror.has(lost)
    assert not is_ancestor(mirror.folder, lost, head)
    assert merge_base(mirror.folder, lost, head) == first
    models.git("checkout", "-q", "--orphan", "other")
    alone = models.commit()
    mirror = open_mirror(project, config_of(models.folder))
    assert merge_base(mirror.folder, head, alone) is None
    assert not mirror.has("1" * 40)


def test_another_address_replaces_the_old(
    project: Project, models: Repository, tmp_path: Path
) -> None:
    open_mirror(project, config_of(models.folder))
    other = Repository.make(tmp_path / "other")
    head = other.commit()
    assert open_mirror(project, config_of(other.folder)).head() == head


def test_a_missing_branch_names_those_that_are(project: Project, models: Repository) -> None:
    mirror = open_mirror(project, config_of(models.folder, "trunk"))
    with pytest.raises(GitError, match="has no branch 'trunk'") as caught:
        mirror.head()
    assert "main" in caught.value.hint


def test_an_empty_repository(project: Project, tmp_path: Path) -> None:
    empty = Repository.make(tmp_path / "empty")
    mirror = open_mirror(project, config_of(empty.folder))
    with pytest.raises(GitError, match="no commit yet") as caught:
        mirror.head()
    assert caught.value.where == str(empty.folder)


def _gone(models: Repository) -> str:
    shutil.rmtree(models.folder)
    return str(models.folder)


def _plain_folder(models: Repository) -> str:
    shutil.rmtree(models.folder / ".git")
    return str(models.folder)


def _nobody_listens(_models: Repository) -> str:
    return "http://someone:secret@127.0.0.1:1/models.git"


@pytest.mark.parametrize("break_it", [_gone, _plain_folder, _nobody_listens])
def test_an_origin_that_is_down(
    project: Project, models: Repository, break_it: Callable[[Repository], str]
) -> None:
    open_mirror(project, config_of(models.folder))
    with pytest.raises(GitError, match="model repository 'team' can't be fetched") as caught:
        open_mirror(project, config_of(break_it(models)))
    assert "git ls-remote" in caught.value.hint
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_shallow_origin_is_refused(
    project: Project, models: Repository, tmp_path: Path, scheme: str
) -> None:
    models.write("net.onnx", "2")
    models.commit()
    shallow = tmp_path / "shallow"
    models.git("clone", "-q", "--depth", "1", f"file://{models.folder}", str(shallow))
    with pytest.raises(GitError, match="shallow") as caught:
        open_mirror(project, config_of(f"{scheme}{shallow}"))
    assert "--unshallow" in caught.value.hint


def test_a_partial_clone_is_refused(project: Project, models: Repository, tmp_path: Path) -> None:
    models.git("config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "partial"
    wanted = ("clone", "-q", "--bare", "--filter=blob:none")
    models.git(*wanted, f"file://{models.folder}", str(partial))
    with pytest.raises(GitError, match="can't be fetched") as caught:
        open_mirror(project, config_of(partial))
    assert "partial clone" in caught.value.hint


def test_locks_that_a_killed_git_left(project: Project, models: Repository) -> None:
    mirror = open_mirror(project, config_of(models.folder))
    models.write("net.onnx", "2")
    head = models.commit()
    for name in ("packed-refs.lock", "refs/heads/main.lock", "config.lock", "HEAD.lock"):
        lock = mirror.folder / name
        lock.touch()
        os.utime(lock, (time.time() - 60, time.time() - 60))
    assert open_mirror(project, config_of(models.folder)).head() == head


def test_two_processes_at_once(project: Project, models: Repository) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom flows.project.places import Project\n"
        "from flows.repositories.model_repository import RepositoryConfig, open_mirror\n"
        "root, url = sys.argv[1:]\n"
        "config = RepositoryConfig('team', url, 'main', ('**/*.onnx',), None, None)\n"
        "print(open_mirror(Project(Path(root)), config).head())\n"
    )
    command = [sys.executable, "-c", code, str(project.root), str(models.folder)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    heads = {process.communicate(timeout=60)[0].strip() for process in running}
    assert heads == {models.git("rev-parse", "HEAD")}


def test_a_mirror_is_no_work_of_its_own(project: Project, models: Repository) -> None:
    mirror = open_mirror(project, config_of(models.folder))
    assert isinstance(mirror, Mirror)
    assert not (mirror.folder / "net.onnx").exists()
