"""A mapped file is what was hashed, or says that it isn't any more."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from stages.package import map_hashed


@pytest.mark.parametrize("content", [b"", b"x", bytes(range(256)) * 100])
def test_bytes_and_digest_are_the_files(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    file = map_hashed(path)
    assert file.data.tobytes() == content
    assert file.facts.sha256 == hashlib.sha256(content).hexdigest()
    assert file.facts.size_bytes == len(content)
    assert not file.has_changed()


def test_what_is_written_into_the_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    file = map_hashed(path)
    with path.open("r+b") as same:
        same.write(b"behind")
    os.utime(path, ns=(1, 1))  # whatever the clock's grain
    assert file.has_changed()


@pytest.mark.parametrize("others", [b"behind", None])
def test_what_takes_the_files_place_changes_nothing(others: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    file = map_hashed(path)
    if others is None:
        path.unlink()
    else:
        (tmp_path / "new").write_bytes(others)
        (tmp_path / "new").replace(path)
    assert not file.has_changed()
    assert file.data.tobytes() == b"before"
