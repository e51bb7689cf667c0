"""The CI files of this repository, and the script that finds the shell in them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).resolve().parent.parent.parent
LINT = REPOSITORY / ".github/lint"
WORKFLOWS = tuple(sorted((REPOSITORY / ".github/workflows").glob("*.yml")))
ACTIONS = tuple(sorted((REPOSITORY / ".github/actions").glob("*/action.yml")))
GITLAB = REPOSITORY / "docs/ci/gitlab-ci.yml"
JENKINSFILE = REPOSITORY / "docs/ci/Jenkinsfile"
SCRIPTS = (
    *sorted(path for path in (REPOSITORY / ".ci").iterdir() if path.is_file()),
    REPOSITORY / "docs/ci/post-receive",
)


def load(path: Path) -> ModuleType:
    """A Python script that is in no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


shell_blocks = load(LINT / "shell_blocks.py")
