"""`recipe flow nightly` as a user runs it, on the real engine with commands that take no time."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.nights.history import history_file, read_history
from stages.errors import Outcome
from tests.flows.command import Ended, recipe, recipe_inside_project
from tests.flows.matrix_project import MatrixProject, make_matrix_project

NOBODY = "http://127.0.0.1:9/api"


class Nights:
    """Runs the command in a project of two models on one device."""

    def __init__(self, root: Path) -> None:
        self.project = make_matrix_project(root, ["m0", "m1"], ["h0"])
        self.cache = str(root / ".cache")

    def run(self, *arguments: str) -> Ended:
        """`recipe flow nightly ARGUMENTS` in this process, which spares the imports."""
        command = ("--quiet", "flow", "nightly", *arguments)
        return recipe_inside_project(self.project.root, *command, RECIPE_CACHE=self.cache)

    def run_beside(self, server: str, *arguments: str) -> Ended:
        """The same in a process of its own, told of this server."""
        root = self.project.root
        return recipe(
            *("--quiet", "flow", "nightly", *arguments),
            cwd=root,
            RECIPE_ROOT=str(root),
            RECIPE_CACHE=self.cache,
            PREFECT_API_URL=server,
        )


@pytest.fixture
def nights(tmp_path: Path, prefect_here: str) -> Nights:
    """A fresh project."""
    return Nights(tmp_path / "project")


def test_a_broken_model_is_a_row_beside_a_sound_one(nights: Nights, flow_server: str) -> None:
    project = nights.project
    project.write("models/m1/model.yaml", "# nothing is left, on which normalize's command fails\n")
    ended = nights.run_beside(flow_server, "--seed", "7")
    assert ended.code == Outcome.INTERNAL_ERROR, ended.err
    assert "2 pairs: 1 newly broken, 1 new" in ended.out
    sound, broken = read_history(history_file(project.root)).rows
    assert (sound.model, sound.outcome, sound.seed) == ("m0", Outcome.PASSED, 7)
    assert sound.p99_ns == 1_210_000
    assert (broken.model, broken.failed_stage) == ("m1", "normalize")
    assert sound.commit.endswith("+changes")
    project.write("models/m1/model.yaml", "description: m1\n")
    ended = nights.run("--seed", "8")
    assert ended.code == Outcome.PASSED, ended.err
    assert "2 pairs: 1 mended, 1 unchanged" in ended.out
    assert not (project.root / "results").exists()
    assert (
        "benchmark:\n  runs: 1000\n  warmup: 50\n  seed: 0\n"
        in (project.root / "params.yaml").read_text()
    )


def test_only_stale_runs_here_and_then_needs_no_server(nights: Nights) -> None:
    project: MatrixProject = nights.project
    ended = nights.run("--only-stale")
    assert ended.code == Outcome.PASSED, ended.err
    assert "2 pairs: 2 new" in ended.out
    assert len(project.began()) == 12
    history = history_file(project.root).read_bytes()
    ended = nights.run_beside(NOBODY, "--only-stale")
    assert ended.code == Outcome.PASSED, ended.err
    assert "2 pairs: nothing was stale" in ended.out
    assert history_file(project.root).read_bytes() == history
    assert len(project.began()) == 12
    project.mark("gate@m1-h0", "reports=failed")
    project.change("canned/gate/passed/note")
    assert nights.run("--only-stale").code == Outcome.GATE_FAILED
    ended = nights.run_beside(NOBODY, "--only-stale")
    assert ended.code == Outcome.GATE_FAILED, ended.err
    assert "2 pairs: nothing was stale, and still: gate failed" in ended.out


def test_only_stale_takes_no_seed(nights: Nights) -> None:
    ended = nights.run_beside(NOBODY, "--only-stale", "--seed", "7")
    assert ended.code == Outcome.BAD_INPUT
    assert "leave one of the two out" in ended.err
