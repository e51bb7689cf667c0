"""The scripts that every CI calls, on local repositories and a DVC remote in a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ci.files import REPOSITORY

ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("GIT_", "GITHUB_", "DVC_", "HISTORY_", "RECIPE_"))
} | {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "DVC_NO_ANALYTICS": "1",
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
}


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@invalid")
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def script(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """`.ci/NAME ARGUMENT ...` in a checkout."""
    return subprocess.run(
        ["bash", f".ci/{arguments[0]}", *arguments[1:]],
        cwd=folder,
        env=ENVIRONMENT | more,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A bare repository with the scripts on its main branch."""
    bare, work = tmp_path / "origin.git", tmp_path / "work"
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(bare))
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(work))
    shutil.copytree(REPOSITORY / ".ci", work / ".ci")
    (work / ".gitignore").write_text("history/\n")
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message=start")
    git(work, "push", "--quiet", str(bare), "main")
    return bare


def clone(origin: Path, name: str) -> Path:
    folder = origin.parent / name
    git(origin.parent, "clone", "--quiet", str(origin), str(folder))
    return folder


class TestHistory:
    def test_the_first_night_makes_the_branch_and_the_second_adds_to_it(self, origin: Path) -> None:
        for number in (1, 2):
            checkout = clone(origin, f"night{number}")
            assert script(checkout, "history", "fetch").returncode == 0
            nights = checkout / "history/nights.csv"
            before = nights.read_text() if nights.exists() else ""
            nights.write_text(f"{before}night {number}\n")
            (checkout / "history/.nights.csv.lock").touch()
            done = script(checkout, "history", "push")
            assert done.returncode == 0, done.stderr
            assert git(checkout, "status", "--porcelain") == ""
        assert git(origin, "show", "history:nights.csv") == "night 1\nnight 2"
        assert git(origin, "rev-list", "--count", "history") == "2"
        assert git(origin, "ls-tree", "--name-only", "history") == "nights.csv"

    def test_nothing_new_is_no_commit(self, origin: Path) -> None:
        checkout = clone(origin, "night")
        script(checkout, "history", "fetch")
        (checkout / "history/nights.csv").write_text("a\n")
        script(checkout, "history", "push")
        assert "nothing new" in script(checkout, "history", "push").stdout
        assert git(origin, "rev-list", "--count", "history") == "1"

    def test_a_branch_that_moved_is_said_and_not_overwritten(self, origin: Path) -> None:
        first, second = clone(origin, "first"), clone(origin, "second")
        for checkout in (first, second):
            script(checkout, "history", "fetch")
            (checkout / "history/nights.csv").write_text(f"{checkout.name}\n")
        assert script(first, "history", "push").returncode == 0
        done = script(second, "history", "push")
        assert done.returncode == 1
        assert "moved while this ran" in done.stderr
        assert git(origin, "show", "history:nights.csv") == "first"

    def test_an_origin_out_of_reach_fails_instead_of_starting_anew(self, origin: Path) -> None:
        checkout = clone(origin, "night")
        origin.rename(origin.with_name("gone"))
        done = script(checkout, "history", "fetch")
        assert done.returncode == 1
        assert "could not ask origin" in done.stderr

    def test_push_before_fetch_is_refused(self, origin: Path) -> None:
        done = script(clone(origin, "night"), "history", "push")
        assert done.returncode == 1
        assert "run 'history fetch' first" in done.stderr

    def test_a_wrong_word_is_refused(self, origin: Path) -> None:
        assert script(clone(origin, "night"), "history", "pull").returncode == 2


def test_git_gets_the_token_from_the_environment_alone(origin: Path) -> None:
    checkout = clone(origin, "checkout")
    done = subprocess.run(
        [
            "bash",
            "-c",
            ". .ci/git-login && printf 'protocol=https\\nhost=x\\n\\n' | git credential fill",
        ],
        cwd=checkout,
        env=ENVIRONMENT | {"GIT_TOKEN": "s3cret", "GIT_LOGIN": "robot"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "username=robot\npassword=s3cret" in done.stdout
    config = (checkout / ".git/config").read_text()
    assert "s3cret" not in config


class TestResults:
    @pytest.fixture
    def project(self, origin: Path) -> Path:
        """A checkout with one cached stage of DVC."""
        folder = clone(origin, "project")
        self.dvc(folder, "init", "--quiet")
        self.stage(folder)
        return folder

    def stage(self, folder: Path) -> None:
        """A stage that leaves a trace when it runs and none when it is restored."""
        (folder / "in.txt").write_text("in\n")
        (folder / "dvc.yaml").write_text(
            "stages: {a: {cmd: cp in.txt out.txt && touch ran, deps: [in.txt], outs: [out.txt]}}\n"
        )

    def dvc(self, folder: Path, *arguments: str) -> None:
        subprocess.run(
            ["dvc", *arguments], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True
        )

    def test_without_a_remote_it_says_so_and_passes(self, project: Path) -> None:
        for direction in ("pull", "push"):
            done = script(project, "results", direction)
            assert done.returncode == 0
            assert done.stdout.startswith("notice: no DVC remote")

    def test_what_one_checkout_pushes_another_restores(self, project: Path, origin: Path) -> None:
        remote = str(origin.parent / "remote")
        self.dvc(project, "repro", "--quiet")
        done = script(project, "results", "push", DVC_REMOTE_URL=remote)
        assert done.returncode == 0, done.stderr
        assert "warning" not in done.stdout
        other = clone(origin, "other")
        self.dvc(other, "init", "--quiet")
        self.stage(other)
        done = script(other, "results", "pull", DVC_REMOTE_URL=remote)
        assert done.returncode == 0, done.stderr
        assert "warning" not in done.stdout
        self.dvc(other, "repro", "--quiet", "--pull")
        assert (other / "out.txt").read_text() == "in\n"
        assert not (other / "ran").exists()
        assert remote not in (other / ".dvc/config").read_text()  # but in config.local

    def test_what_flows_made_in_workspaces_is_pushed_too(self, project: Path, origin: Path) -> None:
        remote = origin.parent / "remote"
        workspace = project / ".cache/workspaces/head"
        workspace.mkdir(parents=True)
        self.dvc(workspace, "init", "--quiet", "--no-scm")
        self.dvc(workspace, "remote", "add", "--local", "--default", "ci", str(remote))
        self.dvc(workspace, "cache", "dir", "--local", str(project / ".dvc/cache"))
        self.stage(workspace)
        self.dvc(workspace, "repro", "--quiet")
        done = script(project, "results", "push", DVC_REMOTE_URL=str(remote))
        assert done.returncode == 0, done.stderr
        assert "warning" not in done.stdout
        contents = [path.read_text() for path in (remote / "files").rglob("*") if path.is_file()]
        assert contents == ["in\n"]

    def test_a_remote_out_of_reach_is_a_warning(self, project: Path) -> None:
        self.dvc(project, "repro", "--quiet")
        blocked = project / "blocked"
        blocked.write_text("a file, so no folder of a remote\n")
        done = script(project, "results", "push", DVC_REMOTE_URL=str(blocked / "remote"))
        assert done.returncode == 0
        assert "warning: could not push all" in done.stdout

    def test_on_github_it_is_an_annotation(self, project: Path) -> None:
        done = script(project, "results", "pull", GITHUB_ACTIONS="true")
        assert done.stdout.startswith("::notice::")
