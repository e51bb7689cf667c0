"""DVC's run-cache: which outputs each stage once made of which inputs. Touches DVC's internals, as
flows/dvc_graph/graph.py says.

As DVC's StageCache, but without hashing every dependency again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml
from dvc.exceptions import DvcException
from dvc.repo import Repo
from dvc.stage import PipelineStage
from dvc.stage.cache import _get_cache_hash
from dvc.stage.serialize import to_single_stage_lockfile

from flows.locks.file_lock import warn


class RunCache:
    """The entries of a repository's cache. Stages come with their dependencies' hashes noted."""

    def __init__(self, repo: Repo) -> None:
        self._repo = repo
        self._remote_is_down = False

    def entries(self, stage: PipelineStage) -> list[Path]:
        """The entries of a stage with its present inputs, the newest first."""
        key = _get_cache_hash(to_single_stage_lockfile(stage), key=True)
        folder = Path(self._repo.stage_cache._get_cache_dir(key))
        if not folder.is_dir():
            return []
        values = [path for path in folder.iterdir() if not path.name.startswith(".")]
        return sorted(values, key=lambda path: path.stat().st_mtime_ns, reverse=True)

    def find(self, stage: PipelineStage) -> PipelineStage | None:
        """The stage with the outputs of its newest entry that can be read."""
        cache = self._repo.stage_cache
        for path in self.entries(stage):
            entry = cache._load_cache(path.parent.name, path.name)
            if entry is not None:
                return cast(PipelineStage, cache._create_stage(entry, wdir=stage.wdir))
        return None

    def recorded(self, stage: PipelineStage) -> PipelineStage:
        """The stage with the outputs that dvc.lock says it has."""
        entry = to_single_stage_lockfile(stage)
        return cast(PipelineStage, self._repo.stage_cache._create_stage(entry, wdir=stage.wdir))

    def save(self, stage: PipelineStage) -> None:
        """Adds an entry, whole or not at all; renews it where there is one."""
        cache = self._repo.stage_cache
        key = _get_cache_hash(to_single_stage_lockfile(stage), key=True)
        entry = to_single_stage_lockfile(stage)
        value = _get_cache_hash(dict(entry))
        if any(not out.use_cache for out in stage.outs):
            for out in cache._uncached_outs(stage, entry):
                out.commit()
        path = Path(cache._get_cache_path(key, value))
        if path.exists():
            os.utime(path)  # the newest is taken
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._beside()
        beside.write_text(_yaml(entry), encoding="utf-8")
        beside.replace(path)

    def pull(self, known: PipelineStage) -> None:
        """Brings the stage's outputs from the default remote, as far as the cache lacks them, and
        the remote has them."""
        has_remote = self._repo.config["core"].get("remote")
        if self._remote_is_down or not has_remote or known.outs_cached():
            return
        try:
            for objects in known.get_used_objs().values():
                self._repo.cloud.pull(objects)
        except DvcException:
            return  # what the remote can't give is made here
        except Exception as error:  # each kind of store has errors of its own
            self._remote_is_down = True
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            warn(f"warning: the DVC remote doesn't answer; going on without it ({said})")

    def _beside(self) -> Path:
        """One name for each checkout, so that what a kill leaves there is overwritten; checkouts
        may share a cache, and DVC takes every file in `runs` for an entry."""
        checkout = hashlib.sha256(os.fsencode(self._repo.root_dir)).hexdigest()[:12]
        return Path(self._repo.stage_cache.cache_dir).with_name(f".run-{checkout}.partial")


def _yaml(entry: Mapping[str, Any]) -> str:
    """As DVC writes it but for where long lines are folded, at a tenth of the time."""
    plain = json.loads(json.dumps(entry))
    return str(yaml.dump(plain, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True))


def may_be_restored(stage: PipelineStage) -> bool:
    """As DVC's own `_can_hash`, without hashing."""
    if stage.is_callback or stage.always_changed or not (stage.cmd and stage.deps and stage.outs):
        return False
    inputs = all(dep.protocol == "local" and dep.def_path for dep in stage.deps)
    return inputs and all(
        out.protocol == "local" and out.def_path and out.is_in_repo and not out.persist
        for out in stage.outs
    )


def may_be_saved(stage: PipelineStage) -> bool:
    """As DVC's Stage.run: not where a plain output stays out of the cache."""
    return may_be_restored(stage) and all(
        out.use_cache or out.is_metric or out.is_plot for out in stage.outs
    )
