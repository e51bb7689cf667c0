"""The one figure that a stage is known by, from the report that it wrote."""

from __future__ import annotations

from pathlib import Path


def main_figure(stage: str, out: Path) -> str:
    """A few words for a progress line."""
    return f"{stage} in {out}"
