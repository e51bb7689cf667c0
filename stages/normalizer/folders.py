"""Output folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stages.errors import InputError


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder to fill beside `target`; it takes `target`'s place when the block ends well.

    Raises:
        InputError: the folder can't be written.
    """
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    old = target.with_name(f".{target.name}.old-{os.getpid()}")
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise InputError(
            f"output folder can't be written: {error.strerror}",
            where=str(target),
            hint="choose another folder with --out",
        ) from error
    try:
        yield partial
        if target.exists():
            target.rename(old)
        partial.rename(target)
    except OSError as error:
        if old.exists() and not target.exists():
            old.rename(target)
        raise InputError(
            f"output folder can't be written: {error.strerror}",
            where=str(target),
            hint="check the disk's free space, or choose another folder with --out",
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
