"""The shell of each CI calls `recipe` with what the event says, and with nothing else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.ci.files import GITLAB, JENKINSFILE, REPOSITORY, WORKFLOWS, shell_blocks

ZEROS = "0" * 40
HOSTILE = '"; touch owned; echo $(touch owned) `touch owned` #'
STUB = """#!/bin/sh
for word in "$@"; do printf '%s\\0' "$word"; done >> "$CALLS"
printf '\\n' >> "$CALLS"
exit "${RECIPE_STATUS:-0}"
"""


def block(path: Path, call: str) -> str:
    """The one piece of shell in a CI file that makes a call."""
    found: list[str] = [
        piece.text for piece in shell_blocks.shell_blocks(path) if call in piece.text
    ]
    assert len(found) == 1
    return found[0]


def workflow_block(name: str, call: str) -> str:
    return block(next(path for path in WORKFLOWS if path.stem == name), call)


class Runner:
    """Runs a piece of shell as CIs do (`bash -e`), with a `recipe` that only notes its words."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls_file = folder / "calls"
        self.output = ""
        scripts = folder / "bin"
        scripts.mkdir()
        for name in ("recipe", "git"):
            (scripts / name).write_text(STUB if name == "recipe" else "#!/bin/sh\n")
            (scripts / name).chmod(0o755)
        (folder / ".ci").mkdir()
        (folder / ".ci/git-login").write_text((REPOSITORY / ".ci/git-login").read_text())
        (folder / ".ci/history").write_text('echo "$1" >> history-calls\n')

    def run(self, text: str, environment: Mapping[str, str]) -> int:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-c", text],
            cwd=self.folder,
            env={"PATH": path, "CALLS": str(self.calls_file), **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        self.output = done.stdout + done.stderr
        return done.returncode

    def calls(self) -> Iterator[list[str]]:
        for line in self.calls_file.read_text().splitlines():
            yield line.rstrip("\0").split("\0")


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


COMMIT_BLOCKS = {
    "github": (workflow_block("model-commit", "flow commit"), ("REPOSITORY", "SINCE", "UNTIL")),
    "gitlab": (block(GITLAB, "flow commit"), ("MODEL_REPOSITORY", "BEFORE", "AFTER")),
    "jenkins": (block(JENKINSFILE, "flow commit"), ("MODEL_REPOSITORY", "BEFORE", "AFTER")),
}


@pytest.mark.parametrize("ci", COMMIT_BLOCKS)
@pytest.mark.parametrize(
    ("values", "words"),
    [
        (("zoo", "a1", "b2"), ["zoo", "--since", "a1", "--until", "b2"]),
        (("zoo", ZEROS, "b2"), ["zoo", "--until", "b2"]),
        (("zoo", "", ""), ["zoo"]),
        ((HOSTILE, HOSTILE, HOSTILE), [HOSTILE, "--since", HOSTILE, "--until", HOSTILE]),
    ],
    ids=["a range", "a branch's first push", "no range", "hostile"],
)
def test_model_commit(runner: Runner, ci: str, values: tuple[str, ...], words: list[str]) -> None:
    text, names = COMMIT_BLOCKS[ci]
    assert runner.run(text, dict(zip(names, values, strict=True))) == 0, runner.output
    assert list(runner.calls()) == [["flow", "commit", *words]]
    assert not (runner.folder / "owned").exists()


@pytest.mark.parametrize("ci", COMMIT_BLOCKS)
def test_a_failed_commit_fails_the_job(runner: Runner, ci: str) -> None:
    text, names = COMMIT_BLOCKS[ci]
    environment = {**dict.fromkeys(names, "x"), "RECIPE_STATUS": "6"}
    assert runner.run(text, environment) == 6


class TestMergeGate:
    github = workflow_block("merge-gate", "flow merge-gate")

    def test_a_branch_of_this_repository_gets_a_comment(self, runner: Runner) -> None:
        assert runner.run(self.github, {"MAY_WRITE": "true", "GITHUB_BASE_REF": "main"}) == 0
        assert list(runner.calls()) == [
            ["flow", "merge-gate", "--base", "origin/main", "--comment"]
        ]

    def test_a_fork_gets_a_notice_and_the_verdict(self, runner: Runner) -> None:
        environment = {"MAY_WRITE": "false", "GITHUB_BASE_REF": "main", "RECIPE_STATUS": "6"}
        assert runner.run(self.github, environment) == 6
        assert "::notice::" in runner.output
        assert list(runner.calls()) == [["flow", "merge-gate", "--base", "origin/main"]]

    @pytest.mark.parametrize(
        ("path", "variable"),
        [(GITLAB, "CI_MERGE_REQUEST_TARGET_BRANCH_NAME"), (JENKINSFILE, "CHANGE_TARGET")],
        ids=["gitlab", "jenkins"],
    )
    def test_the_other_cis(self, runner: Runner, path: Path, variable: str) -> None:
        text = block(path, "flow merge-gate")
        assert runner.run(text, {variable: "main", "RECIPE_STATUS": "6"}) == 6
        assert list(runner.calls()) == [["flow", "merge-gate", "--base", "origin/main"]]


class TestNightly:
    github = workflow_block("nightly", "flow nightly")

    @pytest.mark.parametrize(
        ("seed", "only_stale", "words"),
        [("", "", []), ("7", "false", ["--seed", "7"]), ("", "true", ["--only-stale"])],
        ids=["by schedule", "a seed", "only stale"],
    )
    def test_github(self, runner: Runner, seed: str, only_stale: str, words: list[str]) -> None:
        assert runner.run(self.github, {"SEED": seed, "ONLY_STALE": only_stale}) == 0
        assert list(runner.calls()) == [["flow", "nightly", *words]]

    def test_a_red_night_on_gitlab_is_pushed_and_stays_red(self, runner: Runner) -> None:
        assert runner.run(block(GITLAB, "flow nightly"), {"RECIPE_STATUS": "6"}) == 6
        assert list(runner.calls()) == [["flow", "nightly"]]
        assert (runner.folder / "history-calls").read_text() == "fetch\npush\n"
