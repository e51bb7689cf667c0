"""Writes whole files or none."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_beside(path: Path, content: bytes) -> None:
    """Writes a file beside `path`, then renames it, so that nobody sees half a file."""
    with replaced(path) as beside:
        beside.write_bytes(content)


@contextmanager
def replaced(path: Path, mark: str = "") -> Iterator[Path]:
    """An empty file beside `path`, which takes its place once it was written. `mark` begins the
    changing part of its name."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.{mark}", dir=path.parent)
    os.close(descriptor)
    beside = Path(name)
    try:
        yield beside
        beside.chmod(0o644)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
