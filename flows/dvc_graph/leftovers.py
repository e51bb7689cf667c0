"""What killed processes left: stages beside their outputs, where each is written under a name such
as `.package.partial-4711` and then moved into place; DVC in its cache."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

_DVC_SECONDS = 3600.0  # others may use the cache now
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


def sweep_cache(files: Path) -> None:
    """Removes DVC's own unfinished files from a cache's folder of files, `AA/BB...`, where nobody
    has touched them for an hour."""
    for folder in (files, *(path for path in files.glob("??") if path.is_dir())):
        for found in folder.glob(".*.tmp"):
            if time.time() - found.lstat().st_ctime > _DVC_SECONDS:
                _remove(found)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
