"""The page of the rules says what the rules say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from stages.plan.rules.page import rules_page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "plan-rules.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == rules_page(), (
        "run: python -m stages.plan.rules > docs/plan-rules.md"
    )


def test_the_command_prints_the_page() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "stages.plan.rules"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == rules_page()
