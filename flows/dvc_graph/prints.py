"""What lies at the paths of DVC's graph, hashed as DVC does, but once. Touches DVC's internals, as
flows/dvc_graph/graph.py says."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import dpath
from dvc.dependency.param import ParamsDependency
from dvc.output import Output
from dvc.repo import Repo
from dvc.utils.serialize import load_path
from dvc_data.hashfile.hash_info import HashInfo
from dvc_data.hashfile.meta import Meta

from flows.dvc_graph.path_prints import PathPrints
from stages.errors import InputError


@dataclass(frozen=True, slots=True)
class Print:
    """What lies at a path: DVC's facts and hash; no hash where nothing lies there."""

    meta: Meta | None
    hash_info: HashInfo | None


MISSING = Print(None, None)


class DvcPrints:
    """Prints of dependencies and outputs. Not for several threads at once."""

    def __init__(self, repo: Repo) -> None:
        self._repo = repo
        self._prints: PathPrints[Print] = PathPrints()
        self._parameters: PathPrints[Mapping[str, Any]] = PathPrints()

    def look(self, item: Output) -> Print:
        """What lay there when it was looked at last; now, if it never was."""
        return self._prints.look(_key(item), item.fs_path, lambda: self._print(item))

    def look_again(self, item: Output) -> Print:
        """What lies there now."""
        return self._prints.look_again(_key(item), item.fs_path, lambda: self._print(item))

    def note(self, item: Output, now: Print) -> None:
        """Takes what is known to lie there now."""
        self._prints.note(_key(item), item.fs_path, now)

    def differs(self, item: Output) -> bool:
        """Whether something else lies there than dvc.lock says."""
        now = self.look(item)
        return now is MISSING or not item.hash_info or now.hash_info != item.hash_info

    def is_lost(self, out: Output) -> bool:
        """Whether an output isn't what dvc.lock says, or isn't in the cache."""
        return self.differs(out) or (out.use_cache and bool(out.changed_cache()))

    def _print(self, item: Output) -> Print:
        if not item.exists:
            return MISSING
        if isinstance(item, ParamsDependency):
            return Print(item.meta, self._parameter_values(item))
        meta, hash_info = item._get_hash_meta()
        return Print(meta, hash_info)

    def _parameter_values(self, item: ParamsDependency) -> HashInfo:
        """As ParamsDependency.get_hash, parsing each file once."""
        path = item.fs_path
        read = partial(load_path, path, self._repo.fs)
        content: Any = self._parameters.look_again(path, path, read)
        names = item.params or list(content)
        try:
            values = {name: dpath.get(content, name, separator=".") for name in names}
        except KeyError as error:
            raise InputError(
                f"{item.stage.addressing} depends on the parameter {error.args[0]!r}, which is "
                "missing",
                where=item.def_path,
                hint="add it: docs/matrix.md says what each means",
            ) from error
        return HashInfo("params", cast(Any, values))


def _key(item: Output) -> Hashable:
    return (item.fs_path, *item.params) if isinstance(item, ParamsDependency) else item.fs_path
