"""The newcomer's page, docs/model-repository.md: its ten commands, run as they stand there."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from flows.project.places import CACHE_VARIABLE
from flows.running.flow_server import API_VARIABLE
from tests.flows.command import REPOSITORY
from tests.flows.documented_session import Ended, Step, check_shown, read_steps, run_session
from tests.flows.git_repositories import ENVIRONMENT, Repository
from tests.flows.project_files import copy_project

PAGE = (REPOSITORY / "docs/model-repository.md").read_text()
STEPS = read_steps(PAGE, "From an empty folder to a blocked merge")
SET_UP = "git clone ADDRESS pipeline && make -C pipeline setup"
"""The one command that isn't run as it stands: ADDRESS stands for an address that everybody has
another of, and setting up takes packages from the network. `_set_up` does what it does, with the
files of this repository, as they are, and the environment that runs the tests."""


def _set_up(folder: Path) -> None:
    """`pipeline/`, a Git repository with `.venv/bin/recipe` and `.venv/bin/python`."""
    copy_project(folder)
    Repository.make(folder).commit("the pipeline")
    for name, options in (("recipe", "-m flows "), ("python", "")):
        program = folder / ".venv" / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {options}"$@"\n')
        program.chmod(0o755)


def _environment(folder: Path) -> Mapping[str, str]:
    """A newcomer's: no settings of ours but the flow server, which is that of all tests."""
    kept = {key: value for key, value in os.environ.items() if key != CACHE_VARIABLE}
    code = {"PYTHONPATH": str(folder / "pipeline"), "HOME": str(folder)}
    return {**kept, **ENVIRONMENT, **code}


@pytest.fixture(scope="module")
def session(flow_server: str, tmp_path_factory: pytest.TempPathFactory) -> list[Ended]:
    """What came of each step."""
    folder = tmp_path_factory.mktemp("newcomer")
    _set_up(folder / "pipeline")
    commands = [":" if step.command == SET_UP else step.command for step in STEPS]
    return run_session(commands, folder, {**_environment(folder), API_VARIABLE: flow_server})


def test_there_are_ten_commands() -> None:
    assert len(STEPS) == 10
    assert [f"**{at}.** " in PAGE for at in range(1, 12)] == [True] * 10 + [False]
    assert STEPS[0] == Step(SET_UP, None)


def test_all_end_well(session: list[Ended]) -> None:
    assert [ended.code for ended in session] == [0] * 10, session


@pytest.mark.parametrize("at", range(10), ids=lambda at: f"command {at + 1}")
def test_the_page_shows_what_is_printed(session: list[Ended], at: int) -> None:
    check_shown(STEPS[at].shown or (), session[at].lines)


def test_the_merge_is_blocked(session: list[Ended]) -> None:
    """What the page promises; that its own lines aren't wrong is another test's."""
    assert session[-1].lines[-1] == "exit code 6"
    verdicts = [line for line in session[-1].lines if line.startswith("FAIL: ")]
    assert len(verdicts) == 1
    assert "now on the host: active (Atan isn't in the operator list of npu_tiny)" in verdicts[0]


def test_the_pages_that_it_leads_to_are_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", PAGE)
    assert {"merge-gate.md", "ci/README.md"} <= set(links)
    assert [link for link in links if not (REPOSITORY / "docs" / link).is_file()] == []


@pytest.mark.parametrize(
    "shown",
    [
        ("all passed", "exit code 6"),
        ("[1/2] gate  PASS  P99 90 us  0.4 s", "...", "1 model, all passed", "..."),
        ("...", "exit code 6", "1 model, all passed"),
        ("[1/2] gate  PASS  P99 120 us  0.4 s", "..."),
        ("1 model, all passed", "exit code 6"),
    ],
    ids=["a line cut", "a figure", "an order", "a verdict", "a line left out"],
)
def test_a_page_that_is_wrong_is_found_out(shown: tuple[str, ...]) -> None:
    printed = (
        "[1/2] gate  FAIL  P99 120 us  3.1 s",
        "[2/2] gate  PASS  P99 60 us  2.0 s",
        "1 model, all passed",
        "exit code 6",
    )
    right = ("[2/2] gate  PASS  P99 61 us  0.1 s", "...", "exit code 6")
    check_shown(right, printed)
    with pytest.raises(AssertionError):
        check_shown(shown, printed)
