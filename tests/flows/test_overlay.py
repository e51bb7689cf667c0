"""Laying model folders over a workspace: the same files afterwards, whatever was there before."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from flows.workspaces.overlay import copy_folder

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
FOLDERS = st.dictionaries(PATHS, st.binary(max_size=3), max_size=5)


def _write(folder: Path, files: dict[str, bytes]) -> dict[str, bytes]:
    """Writes those of the files that don't need a file to be a folder; gives them."""
    folder.mkdir()
    written = {}
    for path, content in files.items():
        target = folder / path
        parents = [parent for parent in target.parents if parent.is_relative_to(folder)]
        if not target.is_dir() and not any(parent.is_file() for parent in parents):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            written[path] = content
    return written


def _read(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@given(FOLDERS, FOLDERS)
def test_the_target_becomes_the_source(new: dict[str, bytes], old: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as home:
        source, target = Path(home, "source"), Path(home, "target")
        wanted, before = _write(source, new), _write(target, old)
        times = {path: (target / path).stat().st_mtime_ns for path in before}
        copy_folder(source, target)
        assert _read(target) == wanted
        kept = [path for path in before if wanted.get(path) == before[path]]
        assert all((target / path).stat().st_mtime_ns == times[path] for path in kept)
        folders = {path.relative_to(source) for path in source.rglob("*") if path.is_dir()}
        assert {p.relative_to(target) for p in target.rglob("*") if p.is_dir()} == folders
