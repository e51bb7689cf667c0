"""Spec files for the tests of this room: the shipped ones, and edited copies."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPECS = ROOT / "hardware_specs"
TINY = (SPECS / "npu_tiny.yaml").read_text(encoding="utf-8")


def write_edited(folder: Path, *edits: tuple[str, str]) -> Path:
    """A copy of npu_tiny with the first occurrence of each text replaced."""
    text = TINY
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    path = folder / "npu_tiny.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def line_of(path: Path, fragment: str) -> int:
    """The number of the first line that holds a fragment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if fragment in line)
