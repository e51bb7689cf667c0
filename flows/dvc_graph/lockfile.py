"""dvc.lock, written once a run, whole or not at all. Touches DVC's internals, as
flows/dvc_graph/graph.py says."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from dvc.dvcfile import Lockfile
from dvc.repo import Repo
from dvc.stage import PipelineStage

from stages.errors import InputError


def write_lockfile(repo: Repo, path: Path, stages: Iterable[PipelineStage]) -> None:
    """Puts the entries of these stages into the file, and leaves the others.

    Raises:
        InputError: it can't be written; what it held before is kept.
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        if path.exists():
            beside.write_bytes(path.read_bytes())
        else:
            beside.unlink(missing_ok=True)
        Lockfile(repo, str(beside)).dump_stages(list(stages))
        with beside.open("rb") as stream:
            os.fsync(stream.fileno())
        beside.replace(path)
    except OSError as error:
        raise InputError(
            f"dvc.lock can't be written: {error.strerror or error}",
            where=str(path),
            hint="free some space, and run again: the run-cache keeps all results",
        ) from error
    finally:
        beside.unlink(missing_ok=True)
