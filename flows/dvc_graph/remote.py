"""DVC's remote: what a run made goes there, what others made comes from there. The other half of
`graph`, the only module that calls it; tests/flows/test_dvc_remote.py is the contract.

`dvc push --run-cache` uploads every run-cache entry each time, one after another, and only logs
what fails. This lists the remote's entries once, moves those that the other side lacks, many at a
time, and raises.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dvc.config import NoRemoteError, RemoteConfigError, RemoteNotFoundError
from dvc.exceptions import DvcException
from dvc.fs import LocalFileSystem
from dvc.output import Output
from dvc.repo import Repo
from dvc.stage import PipelineStage
from dvc_data.hashfile.hash_info import HashInfo
from dvc_objects.fs import generic

from stages.errors import Outcome, RecipeError

_RUNS = "runs"
_BATCH = 32


class RemoteError(RecipeError):
    """The DVC remote can't be read or written. Results stay in the cache of this machine."""

    outcome = Outcome.INTERNAL_ERROR


@dataclass(frozen=True, slots=True)
class Moved:
    """How many objects (files and folder listings) and run-cache entries were moved."""

    objects: int
    entries: int


def push(
    repo: Repo, stages: Iterable[PipelineStage], entries: Iterable[Path], remote: str
) -> Moved:
    """Sends the outputs of these stages, then these run-cache entries: who finds an entry finds its
    files. What the remote has already isn't sent. An empty `remote` means the default one.

    Raises:
        RemoteError: no remote, or it can't be written.
    """
    with _words(repo, remote):
        objects = _objects(out for stage in stages for out in stage.outs)
        sent = repo.cloud.push(objects, remote=remote or None)
        if sent.failed:
            raise RemoteError(
                f"{len(sent.failed)} of {len(objects)} files couldn't be sent to the remote",
                where=_address(repo, remote),
                hint=_HINT,
            )
        far = _far(repo, remote)
        local = Path(repo.cache.legacy.path)
        paths = [entry.relative_to(local).as_posix() for entry in entries]
        known = _far_entries(far)
        missing = [path for path in paths if path not in known]
        _copy(LocalFileSystem(), str(local), far.fs, far.path, missing)
        return Moved(len(sent.transferred), len(missing))


def fetch_entries(repo: Repo, remote: str) -> int:
    """Brings the run-cache entries that the cache lacks; the files that they name come when a stage
    is restored. An empty `remote` means the default one.

    Raises:
        RemoteError: no remote, or it can't be read.
    """
    with _words(repo, remote):
        far = _far(repo, remote)
        local = Path(repo.cache.legacy.path)
        missing = sorted(path for path in _far_entries(far) if not (local / path).exists())
        _copy(far.fs, far.path, LocalFileSystem(), str(local), missing)
        return len(missing)


def fetch_outputs(repo: Repo, outputs: Iterable[Output], remote: str) -> int:
    """Brings the files of these outputs into the cache, as far as the remote has them: the listings
    of all folders first, then what they list.

    Raises:
        RemoteError: no remote, or it can't be read.
    """
    with _words(repo, remote):
        wanted = list(outputs)
        listings = {out.hash_info for out in wanted if out.hash_info.isdir}
        brought = _pull(repo, listings, remote)
        listed = [out for out in wanted if not out.hash_info.isdir or out.get_obj() is not None]
        return brought + _pull(repo, _objects(listed) - listings, remote)


def _objects(outputs: Iterable[Output]) -> set[HashInfo]:
    return {
        hash_info
        for out in outputs
        for hash_infos in out.get_used_objs().values()
        for hash_info in hash_infos
    }


def _pull(repo: Repo, objects: Collection[HashInfo], remote: str) -> int:
    if not objects:
        return 0
    return len(repo.cloud.pull(objects, remote=remote or None).transferred)


def _far(repo: Repo, remote: str) -> Any:
    return repo.cloud.get_remote_odb(remote or None, "push", hash_name="md5-dos2unix")


def _far_entries(far: Any) -> set[str]:
    """Paths below the remote's root: runs/AA/KEY/VALUE."""
    runs = far.fs.join(far.path, _RUNS)
    try:
        found = list(far.fs.find(runs))
    except FileNotFoundError:
        return set()
    return {f"{_RUNS}/{'/'.join(far.fs.parts(path)[-3:])}" for path in found}


def _copy(from_fs: Any, from_root: str, to_fs: Any, to_root: str, paths: list[str]) -> None:
    if not paths:
        return
    sources = [from_fs.join(from_root, *path.split("/")) for path in paths]
    targets = [to_fs.join(to_root, *path.split("/")) for path in paths]
    generic.copy(from_fs, sources, to_fs, targets, batch_size=_BATCH)


_HINT = (
    "see that it is up and that you may write there (`dvc push` says more); nothing is lost: "
    "results are in this machine's cache, and the next run sends them"
)


@contextmanager
def _words(repo: Repo, remote: str) -> Iterator[None]:
    """Whatever a store's client raises, in words.

    Raises:
        RemoteError: instead.
    """
    try:
        yield
    except RecipeError:
        raise
    except (NoRemoteError, RemoteNotFoundError) as error:
        raise RemoteError(
            "no DVC remote" if not remote else f"no DVC remote {remote!r}",
            where=os.path.join(repo.root_dir, ".dvc", "config"),
            hint="name one: `dvc remote add --default NAME URL`",
        ) from error
    except RemoteConfigError as error:
        raise RemoteError(f"the remote can't be used: {error}") from error
    except Exception as error:  # each kind of store has errors of its own
        said = f"{error}".splitlines()[0] if f"{error}" else type(error).__name__
        kind = "" if isinstance(error, (DvcException, OSError)) else f"{type(error).__name__}: "
        raise RemoteError(
            f"the remote doesn't answer as it should: {kind}{said}",
            where=_address(repo, remote),
            hint=_HINT,
        ) from error


def _address(repo: Repo, remote: str) -> str:
    name = remote or str(repo.config["core"].get("remote", ""))
    url = repo.config["remote"].get(name, {}).get("url", "")
    return f"remote {name!r} ({url})"
