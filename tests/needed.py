"""Marks for tests that need a program that Python can't install: skipped where a machine lacks it,
but never in CI, where nobody would see that."""

from __future__ import annotations

import os
import shutil

import pytest


def skip_unless(found: bool, reason: str) -> pytest.MarkDecorator:
    """Skips where something isn't found; with CI=true the test runs, and fails."""
    return pytest.mark.skipif(not found and os.environ.get("CI") != "true", reason=reason)


needs_make = skip_unless(shutil.which("make") is not None, "runs make, which isn't here")
