"""Decisions kept for the next weights: one zip file for each structure, in a folder of its own.

The name of a file is a digest of everything that decides, the compiler's own code included. So what
is found is what a compile would decide, and a package is a function of its inputs whether or not
something was found. The folder may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
import zipfile
import zlib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from io import BytesIO
from pathlib import Path

import numpy as np

from stages.errors import PackageError
from stages.package.decisions import PlanFiles, StoredDecisions, print_decisions, read_decisions
from stages.package.explanation_file import print_explanation, read_explanation
from stages.package.manifest import DECISIONS, EXPLANATION, PLAN, PLAN_TEXT, RECIPE
from stages.package.read import parse_packed_recipe
from stages.recipe.text import print_recipe

_KEPT = 32
_ENDING = ".zip"
_FAST = 1  # of zlib's levels: the text of a plan shrinks to a tenth even so
_UNASKED = frozenset({"calibration", "comparison", "device", "evaluation", "normalizer", "report"})
"""Rooms that decide nothing about a recipe whose rewrites have ended."""


@cache
def code_digest() -> str:
    """The SHA-256 of the code that decides, and of the versions of the libraries under it: what
    another of them decided isn't used, whatever the compiler's version says."""
    root = str(Path(__file__).resolve().parents[1])
    digest = hashlib.sha256(f"{sys.version_info[:2]} {np.__version__} {version('scipy')}".encode())
    for path in sorted(_code_files(root)):
        with open(path, "rb") as file:
            content = file.read()
        name = path[len(root) + 1 :].replace(os.sep, "/")
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _code_files(root: str) -> Iterator[str]:
    """The code of the rooms that decide. Text for paths: there are hundreds of them."""
    for folder, inner, files in os.walk(root):
        left_out = _UNASKED if folder == root else frozenset[str]()
        inner[:] = [name for name in inner if name not in left_out and name != "__pycache__"]
        yield from (os.path.join(folder, name) for name in files if name.endswith(".py"))


def find_stored(folder: Path, structure_sha256: str) -> StoredDecisions | None:
    """The decisions kept for a structure; None where there are none, or none that are whole."""
    path = _path(folder, structure_sha256)
    try:
        with zipfile.ZipFile(path) as archive:
            data = {name: archive.read(name) for name in archive.namelist()}
        found = _read(data, str(path))
        os.utime(path)  # used just now: the last to be removed
    except (OSError, zipfile.BadZipFile, zlib.error, PackageError, KeyError):
        return None  # as if it weren't there: it is made again
    return found if found.facts.structure_sha256 == structure_sha256 else None


def keep_stored(folder: Path, stored: StoredDecisions) -> str:
    """Keep decisions, and remove the oldest beyond a number of them. Returns why they couldn't be
    kept; empty where they are. A compile doesn't fail for it."""
    path = _path(folder, stored.facts.structure_sha256)
    beside = path.with_name(f".{path.stem}.{secrets.token_hex(4)}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            beside.write_bytes(_archive(stored))
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        _remove_oldest(folder)
    except OSError as error:
        return f"decisions can't be kept in {folder}: {error.strerror}"
    return ""


def _path(folder: Path, structure_sha256: str) -> Path:
    key = hashlib.sha256(f"{structure_sha256} {code_digest()}".encode()).hexdigest()
    return folder / f"{key}{_ENDING}"


def _archive(stored: StoredDecisions) -> bytes:
    contents = {
        RECIPE: print_recipe(stored.recipe).encode(),
        PLAN_TEXT: stored.plan.text,
        PLAN: stored.plan.binary,
        EXPLANATION: print_explanation(stored.weighed).encode(),
        DECISIONS: print_decisions(stored.facts).encode(),
    }
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=_FAST) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _read(data: dict[str, bytes], where: str) -> StoredDecisions:
    return StoredDecisions(
        read_decisions(data[DECISIONS], where),
        parse_packed_recipe(data[RECIPE], Path(where)),
        read_explanation(data[EXPLANATION], where),
        PlanFiles(data[PLAN_TEXT], data[PLAN]),
    )


def _remove_oldest(folder: Path) -> None:
    """Keep the last used ones. Another process may remove them at the same time."""
    found = []
    for path in folder.glob(f"*{_ENDING}"):
        try:
            found.append((path.stat().st_mtime_ns, path))
        except FileNotFoundError:
            continue
    for _, path in sorted(found, reverse=True)[_KEPT:]:
        path.unlink(missing_ok=True)
