"""Workspaces: what they hold, what stays, what is left alone, and who waits."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from flows.git.command import GitError
from flows.locks.file_lock import file_lock, holder_of
from flows.project.places import Project
from flows.workspaces.overlay import Overlay
from flows.workspaces.workspace import open_workspace
from stages.errors import InputError
from tests.flows.git_repositories import Repository, make_project

OF_DVC = str(Path(".dvc", "tmp", "x"))
"""A file that DVC keeps for itself."""


pytestmark = pytest.mark.usefixtures("surroundings")


@pytest.fixture
def made(tmp_path: Path) -> tuple[Repository, Project]:
    return make_project(tmp_path / "project")


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder) != Path(".dvc/config.local")
    }


def tracked(repository: Repository, tree: str = "HEAD") -> dict[str, bytes]:
    names = repository.git("ls-tree", "-r", "-z", "--name-only", tree).split("\0")
    return {
        name: subprocess.run(
            ["git", "show", f"{tree}:{name}"],
            cwd=repository.folder,
            capture_output=True,
            check=True,
        ).stdout
        for name in names
        if name
    }


def state_of(repository: Repository) -> object:
    git_folder = repository.folder / ".git"
    objects = sorted(str(path) for path in (git_folder / "objects").rglob("*"))
    index = (git_folder / "index").read_bytes()
    return objects, index, repository.git("for-each-ref"), repository.git("status", "--porcelain")


def test_a_workspace_holds_what_the_commit_holds(made: tuple[Repository, Project]) -> None:
    repository, project = made
    first = repository.git("rev-parse", "HEAD")
    repository.write("stages/compile.py", "VERSION = 2\n")
    repository.write("stages/new/room.py", "")
    repository.git("rm", "-q", "hardware_specs/npu_a.yaml")
    second = repository.commit()
    for tree in (first, second, first, f"{second}^{{tree}}"):
        with open_workspace(project, "base", tree) as folder:
            assert files_of(folder) == tracked(repository, tree)
            assert (folder / "stages/new").exists() == (tree not in (first,))


def test_files_as_they_are_and_the_repository_untouched(made: tuple[Repository, Project]) -> None:
    repository, project = made
    repository.write("stages/compile.py", "VERSION = 3\n")
    repository.git("add", "stages/compile.py")
    repository.write("stages/compile.py", "VERSION = 4\n")
    repository.write("new file.py", "fresh\n")
    repository.write("results/large.bin", "ignored\n")
    (repository.folder / "hardware_specs/npu_a.yaml").unlink()
    before = state_of(repository)
    with open_workspace(project, "head", None) as folder:
        held = files_of(folder)
    assert state_of(repository) == before
    assert held["stages/compile.py"] == b"VERSION = 4\n"
    assert held["new file.py"] == b"fresh\n"
    assert "hardware_specs/npu_a.yaml" not in held
    assert "results/large.bin" not in held


def test_unchanged_files_keep_their_times(made: tuple[Repository, Project]) -> None:
    repository, project = made
    model = repository.folder.parent / "placed"
    model.mkdir()
    (model / "net.onnx").write_bytes(b"weights")
    overlay = Overlay(params={"benchmark.seed": 7}, models={"net": model, "own": model})

    def times(tree: str | None) -> dict[str, int]:
        with open_workspace(project, "base", tree, overlay) as folder:
            return {str(p.relative_to(folder)): p.stat().st_mtime_ns for p in folder.rglob("*")
                    if p.is_file()}  # fmt: skip

    first = times("HEAD")
    repository.write("stages/compile.py", "VERSION = 22\n")
    repository.commit()
    second = times(None)
    changed = {path for path in first | second if first.get(path) != second.get(path)}
    assert changed == {"stages/compile.py"}


def test_results_and_lock_stay_and_strangers_go(made: tuple[Repository, Project]) -> None:
    repository, project = made
    repository.write("dvc.lock", "of the tree\n")
    repository.commit()
    with open_workspace(project, "base", "HEAD") as folder:
        assert (folder / "dvc.lock").read_text() == "of the tree\n"
        (folder / "dvc.lock").write_text("of a run\n")
        for path in ("results/a/b.csv", OF_DVC, "stages/__pycache__/compile.pyc",
                     "gone/__pycache__/old.pyc", "stray/deep/file", "stray.txt"):  # fmt: skip
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("x")
        (folder / "link").symlink_to("/")
        (folder / "stages/compile.py").write_text("tampered\n")
        (folder / "params.yaml").unlink()
    with open_workspace(project, "base", "HEAD") as folder:
        held = files_of(folder)
        folders = {path.name for path in folder.iterdir() if path.is_dir()}
    assert held.pop("dvc.lock") == b"of a run\n"
    assert set(held) - set(tracked(repository)) == {
        "results/a/b.csv",
        OF_DVC,
        "stages/__pycache__/compile.pyc",
    }
    assert held["stages/compile.py"] == b"VERSION = 1\n"
    assert "gone" not in folders
    assert "stray" not in folders


def test_the_overlay_is_laid_afresh_each_time(made: tuple[Repository, Project]) -> None:
    repository, project = made
    repository.write("baselines/npu_a/old.json", "{}")
    repository.write("baselines/npu_a/old.samples.csv", "1\n")
    repository.write("baselines/npu_a/kept.json", "kept")
    repository.commit()
    source = repository.folder.parent / "placed"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "net.data").write_bytes(b"1")
    overlay = Overlay(
        params={"benchmark.seed": 3, "matrix.models": ["own"]},
        models={"own": source},
        baselines={"new": "old", "kept": "old"},
    )
    with open_workspace(project, "head", "HEAD", overlay) as folder:
        assert (folder / "params.yaml").read_text() == (
            "benchmark:\n  runs: 10\n  seed: 3\nmatrix:\n  models:\n  - own\n"
        )
        assert files_of(folder / "models") == {"own/sub/net.data": b"1"}
        assert files_of(folder / "baselines/npu_a") == {
            "kept.json": b"kept",
            "new.json": b"{}",
            "new.samples.csv": b"1\n",
            "old.json": b"{}",
            "old.samples.csv": b"1\n",
        }
    (source / "sub" / "net.data").unlink()
    (source / "sub").rmdir()
    (source / "sub").write_bytes(b"now a file")
    with open_workspace(project, "head", "HEAD", Overlay(models={"own": source})) as folder:
        assert files_of(folder / "models") == {"own/sub": b"now a file"}
        assert (folder / "params.yaml").read_bytes() == tracked(repository)["params.yaml"]
    with open_workspace(project, "head", "HEAD") as folder:
        assert files_of(folder) == tracked(repository)


def test_a_parameter_that_leads_through_a_value(made: tuple[Repository, Project]) -> None:
    _, project = made
    overlay = Overlay(params={"benchmark.runs.many": 1})
    with (
        pytest.raises(InputError, match="leads through a value"),
        open_workspace(project, "head", "HEAD", overlay),
    ):
        pass


def test_dvc_uses_the_projects_cache_and_remotes(made: tuple[Repository, Project]) -> None:
    repository, project = made
    repository.write(
        ".dvc/config",
        "[core]\n    remote = far\n['remote \"far\"']\n    url = ../far\n"
        "['remote \"s3\"']\n    url = s3://bucket/path\n",
    )
    repository.write(
        ".dvc/config.local",
        "[cache]\n    type = symlink\n['remote \"s3\"']\n    profile = ci\n"
        "['remote \"near\"']\n    url = ../../near\n    keyfile = key.pem\n",
    )
    repository.commit()
    with open_workspace(project, "base", "HEAD") as folder:
        asked = [sys.executable, "-m", "dvc", "config", "--list"]
        ended = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=True)
        shown = [sys.executable, "-m", "dvc", "cache", "dir"]
        cache = subprocess.run(shown, cwd=folder, capture_output=True, text=True, check=True)
    settings = dict(line.split("=", 1) for line in ended.stdout.splitlines())
    root = repository.folder
    assert settings["remote.near.url"] == str(root.parent / "near")
    assert settings["remote.near.keyfile"] == str(root / ".dvc/key.pem")
    assert settings["remote.s3.profile"] == "ci"
    assert settings["remote.s3.url"] == "s3://bucket/path"
    assert settings["cache.type"] == "symlink"
    assert settings["core.no_scm"] == "true"
    assert settings["core.remote"] == "far"
    local = (folder / ".dvc/config.local").read_text()
    assert f"url = {root / 'far'}" in local
    assert cache.stdout.strip() == str(root / ".dvc/cache")


def test_a_project_in_a_folder_of_its_repository(tmp_path: Path) -> None:
    whole = Repository.make(tmp_path / "whole")
    whole.write("other/file", "not ours")
    for path, content in tracked(make_project(tmp_path / "project")[0]).items():
        whole.write(f"tools/the pipeline/{path}", content)
    whole.commit()
    project = Project(whole.folder / "tools/the pipeline")
    whole.write("tools/the pipeline/new.py", "1")
    with open_workspace(project, "head", None) as folder:
        assert files_of(folder)["new.py"] == b"1"
        assert "params.yaml" in files_of(folder)
    with open_workspace(project, "head", "HEAD") as folder:
        assert "new.py" not in files_of(folder)
        assert "params.yaml" in files_of(folder)


def test_a_linked_work_tree(made: tuple[Repository, Project], tmp_path: Path) -> None:
    repository, _ = made
    repository.git("worktree", "add", "-q", str(tmp_path / "second"), "-b", "second")
    second = Repository(tmp_path / "second")
    second.write("stages/compile.py", "VERSION = 9\n")
    with open_workspace(Project(second.folder), "head", None) as folder:
        assert (folder / "stages/compile.py").read_text() == "VERSION = 9\n"


def test_no_repository_and_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "bare").mkdir()
    with (
        pytest.raises(GitError, match="isn't in a Git repository") as caught,
        open_workspace(Project(tmp_path / "bare"), "head", None),
    ):
        pass
    assert "git init" in caught.value.hint
    empty = Repository.make(tmp_path / "empty")
    for tree in (None, "HEAD", "main"):
        with (
            pytest.raises(GitError, match="has no commit yet"),
            open_workspace(Project(empty.folder), "head", tree),
        ):
            pass


def test_an_unknown_revision_names_near_ones(made: tuple[Repository, Project]) -> None:
    repository, project = made
    repository.git("branch", "feature/pooling")
    with (
        pytest.raises(GitError, match="no tree 'feature/poling'") as caught,
        open_workspace(project, "head", "feature/poling"),
    ):
        pass
    assert "feature/pooling" in caught.value.hint


def test_what_a_killed_holder_left_blocks_nobody(made: tuple[Repository, Project]) -> None:
    repository, project = made
    with open_workspace(project, "base", "HEAD") as folder:
        pass
    home = folder.parent
    (home / ".base.index.lock").touch()
    (home / ".base.scratch-index.lock").touch()
    (home / ".base.objects").mkdir()
    (home / ".base.lock").write_text(json.dumps({"pid": 1, "command": "dead", "since": "then"}))
    (folder / "stages/compile.py").unlink()
    with open_workspace(project, "base", "HEAD") as folder:
        assert files_of(folder) == tracked(repository)


def test_called_from_a_hook_of_another_repository(
    made: tuple[Repository, Project], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, project = made
    other = Repository.make(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other.folder / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "nowhere"))
    with open_workspace(project, "base", None) as folder:
        monkeypatch.delenv("GIT_DIR")
        monkeypatch.delenv("GIT_INDEX_FILE")
        assert files_of(folder) == tracked(repository)


def test_the_second_waits_and_says_for_whom(made: tuple[Repository, Project]) -> None:
    _, project = made
    said: list[str] = []
    entered = threading.Event()

    def second() -> None:
        with open_workspace(project, "base", "HEAD", say=said.append):
            entered.set()

    with open_workspace(project, "base", "HEAD"):
        thread = threading.Thread(target=second)
        thread.start()
        assert not entered.wait(0.5)
    thread.join(30)
    assert entered.is_set()
    (line,) = said
    assert line.startswith(f"waiting for the workspace 'base': held by process {os.getpid()} (")


def test_a_killed_process_frees_its_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    code = (
        "import sys, time\nfrom pathlib import Path\n"
        "from flows.locks.file_lock import file_lock\n"
        f"with file_lock(Path({str(lock)!r}), 'it'):\n"
        "    print('held', flush=True)\n    time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    found = holder_of(lock)
    assert found is not None
    assert found.pid == holder.pid
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    assert holder_of(lock) is None
    with (
        file_lock(lock, "it", pytest.fail),
        lock.open() as stream,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert lock.read_text() == ""


_SWITCHER = """
import sys
from pathlib import Path
from flows.workspaces.overlay import Overlay
from flows.project.places import Project
from flows.workspaces.workspace import open_workspace
root = Path(sys.argv[1])
while True:
    for seed, tree in enumerate(sys.argv[2:]):
        overlay = Overlay(params={"benchmark.seed": seed})
        with open_workspace(Project(root), "w", tree, overlay):
            print("had it", flush=True)
"""


def test_killed_at_any_moment(made: tuple[Repository, Project]) -> None:
    repository, project = made
    trees = []
    for size in (150, 40):
        for at in range(size):
            repository.write(f"stages/room{at % 7}/part{at}.py", f"{at} of {size}\n" * size)
        repository.write(f"only/in{size}.py", "")
        trees.append(repository.commit())
        repository.git("rm", "-q", "-r", "stages")
    expected = {tree: tracked(repository, tree) for tree in trees}
    command = [sys.executable, "-c", _SWITCHER, str(project.root), *trees]
    for kill in range(8):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            assert running.stdout.readline() == "had it\n"
            time.sleep(kill * 0.02)
            running.kill()
        tree = trees[kill % 2]
        with open_workspace(project, "w", tree, say=lambda _said: None) as folder:
            assert files_of(folder) == expected[tree]
    assert repository.git("fsck", "--strict") == ""
