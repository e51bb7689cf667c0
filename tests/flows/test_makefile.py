"""`make` finds an interpreter that really runs, or says what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.flows.command import REPOSITORY
from tests.needed import needs_make

pytestmark = needs_make


def script(path: Path, body: str) -> None:
    """An executable shell script."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Says what `make setup` would do in a fresh checkout, with `folder/bin` first in PATH."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(REPOSITORY / name, folder)
    outer = ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "PYTHON")  # the tests may run under make
    environment = {name: value for name, value in os.environ.items() if name not in outer}
    return subprocess.run(
        ["make", "setup", *arguments],
        cwd=folder,
        env=environment | {"PATH": f"{folder / 'bin'}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_name_that_doesnt_run_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin" / "python3.11", "echo command not found >&2; exit 127")
    script(tmp_path / "bin" / "python3.12", f'exec {sys.executable} "$@"')
    done = make(tmp_path, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "python3.12 -m venv" in done.stdout


def test_an_interpreter_out_of_range_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin" / "old", "exit 1")
    done = make(tmp_path, "PYTHON=old")
    assert done.returncode != 0
    assert "PYTHON=old is not Python 3.11, 3.12 or 3.13" in done.stdout
    assert not (tmp_path / ".venv").exists()


def test_none_at_all_is_refused_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("python3.11", "python3.12", "python3.13", "python3", "python"):
        script(tmp_path / "bin" / name, "exit 127")
    done = make(tmp_path)
    assert done.returncode != 0
    assert "hint: install one" in done.stdout
    assert not (tmp_path / ".venv").exists()


def test_bench_runs_every_bench() -> None:
    recipe = (REPOSITORY / "Makefile").read_text().partition("\nbench:")[2].partition("\n\n")[0]
    folder = REPOSITORY / "flows" / "benchmarks"
    runnable = {path.stem for path in folder.glob("*.py") if "__main__" in path.read_text()}
    asked = {"fallbacks", "whole_compiles"}  # for folders of models that one names
    assert set(re.findall(r"flows\.benchmarks\.(\w+)", recipe)) == runnable - asked
