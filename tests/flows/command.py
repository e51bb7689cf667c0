"""Runs the `recipe` command in a process of its own, as a user does."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from flows.cli import call
from flows.project.places import ROOT_VARIABLE

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def recipe(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> Ended:
    """Runs `recipe ARGUMENTS` in `cwd`; the project is the repository unless told otherwise."""
    done = subprocess.run(
        [sys.executable, "-m", "flows", *map(str, arguments)],
        cwd=cwd or REPOSITORY,
        env=command_environment() | environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=240,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@contextlib.contextmanager
def started(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A `recipe` command that runs, leader of its own process group, as under a terminal."""
    process = subprocess.Popen(
        [sys.executable, "-m", "flows", *map(str, arguments)],
        cwd=REPOSITORY,
        env=command_environment() | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def recipe_inside(*arguments: str | Path) -> Ended:
    """Runs `recipe ARGUMENTS` in this process, which spares the imports."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = call([str(argument) for argument in arguments])
    return Ended(int(code), out.getvalue(), err.getvalue())


def recipe_inside_project(root: Path, *arguments: str | Path, **environment: str) -> Ended:
    """Runs `recipe ARGUMENTS` in this process, in the project at `root`."""
    with contextlib.chdir(root), pytest.MonkeyPatch.context() as patch:
        for key, value in {ROOT_VARIABLE: str(root), **environment}.items():
            patch.setenv(key, value)
        return recipe_inside(*arguments)


def command_environment() -> dict[str, str]:
    """The environment, with this project importable from any folder."""
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "100"}
