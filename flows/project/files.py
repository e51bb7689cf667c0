"""Writes whole files or none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_beside(path: Path, content: bytes) -> None:
    """Writes a file beside `path`, then renames it, so that nobody sees half a file."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
