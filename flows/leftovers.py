"""Files and folders that a killed stage left beside its outputs: it writes each there, under a name
such as `.package.partial-4711`, and then moves it into place."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

_UNFINISHED = r"\.{name}\.(.+\.)?(partial|previous|old)(-.+)?"


def remove_leftovers(outputs: Iterable[Path], root: Path) -> None:
    """Removes what was on its way to these outputs, or to the folder that holds one, as far as they
    lie in `root`. Nobody may be writing them now."""
    for target in {place for path in outputs for place in (path, path.parent)}:
        if root not in target.parents:
            continue
        wanted = re.compile(_UNFINISHED.format(name=re.escape(target.name)))
        if target.parent.is_dir():
            for found in list(target.parent.iterdir()):
                if wanted.fullmatch(found.name):
                    _remove(found)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
