"""Runs the `recipe` command in a process of its own, as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

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


def command_environment() -> dict[str, str]:
    """The environment, with this project importable from any folder."""
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "100"}
