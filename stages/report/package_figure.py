"""The one figure that a compile is known by; all of it stands in the package."""

from __future__ import annotations

from pathlib import Path

from stages.units import format_bytes

_HOST_GROUP = " on host"


def package_figure(out: Path) -> str:
    """A few words about the package in `out`."""
    lines = (out / "recipe.txt").read_text(encoding="utf-8").splitlines()
    groups = [line for line in lines if line.startswith("group ")]
    hosted = sum(_HOST_GROUP in line for line in groups)
    weights = (out / "weights.safetensors").stat().st_size
    return f"{len(groups)} groups, {hosted} on the host, weights {format_bytes(weights)}"
