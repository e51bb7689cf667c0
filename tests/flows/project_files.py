"""This project's own files, as a clone with all changes of the work tree would hold them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.flows.command import REPOSITORY

OF_DVC = (".dvc/config", ".dvc/.gitignore", ".dvcignore")


def copy_project(folder: Path, *patterns: str) -> None:
    """Copies the files that match, all without a pattern; but none that Git ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    ).stdout.decode()
    for path in filter(None, listed.split("\0")):
        if (REPOSITORY / path).is_file():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / path, target)
