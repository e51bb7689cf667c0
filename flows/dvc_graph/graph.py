"""DVC's graph: what it holds, what is stale, and saving what ran. This room alone touches DVC's
internals, which is why the project pins `dvc>=3.67,<3.68`; tests/flows/test_dvc_graph.py is the
contract with them.

Where `dvc repro` hashes every dependency of every stage anew and rewrites the whole dvc.lock after
each, this hashes each path once a run and writes dvc.lock once, to a file beside it that replaces
the old. Results are saved to DVC's cache and run-cache as each stage ends, so a kill at any moment
loses only what was in flight.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import networkx as nx
from dvc.config import NotDvcRepoError
from dvc.dvcfile import LOCK_FILE, PROJECT_FILE
from dvc.exceptions import DvcException
from dvc.output import Output
from dvc.repo import Repo
from dvc.stage import PipelineStage
from dvc.utils import dict_sha256

from flows.dvc_graph import remote as dvc_remote
from flows.dvc_graph.claims import claim
from flows.dvc_graph.leftovers import remove_leftovers, sweep_cache
from flows.dvc_graph.lockfile import write_lockfile
from flows.dvc_graph.nodes import Node, make_nodes
from flows.dvc_graph.prints import MISSING, DvcPrints, Print
from flows.dvc_graph.remote import Moved
from flows.dvc_graph.runs import RunCache, may_be_restored, may_be_saved
from flows.steps.board import Step
from stages.errors import InputError

_ROLLBACK = "the run-cache keeps all results: `git checkout dvc.lock`, or delete it, and run again"
_MEND = "mend dvc.yaml or params.yaml: docs/matrix.md explains them"


class InputsChangedError(InputError):
    """A dependency isn't what it was when the stage began."""


class DvcGraph:
    """The stages of one folder's dvc.yaml. May be used from many threads, one at a time inside.

    DVC resolves the run-cache's paths against the current folder: use it within `open_graph`.
    """

    def __init__(self, repo: Repo) -> None:
        self._repo = repo
        self._mutex = threading.Lock()
        self._prints = DvcPrints(repo)
        self._runs = RunCache(repo)
        self._done: dict[str, PipelineStage] = {}
        graph: nx.DiGraph = repo.index.graph  # an edge leads from a stage to one that it needs
        self._stages = {
            stage.addressing: stage for stage in graph if isinstance(stage, PipelineStage)
        }
        # What isn't linked to the cache needs no second look there, which costs more than the copy.
        self._relinks = not {"hardlink", "symlink"}.isdisjoint(repo.cache.local.cache_types)
        self.nodes: Mapping[str, Node] = make_nodes(repo, graph, self._stages)

    def select(self, names: Collection[str] | None = None) -> list[str]:
        """The named stages and all that they need, each after what it needs; None means all.

        Raises:
            InputError: dvc.yaml has no such stage.
        """
        needs = nx.DiGraph()
        needs.add_nodes_from(self.nodes)
        needs.add_edges_from(
            (need, node.name) for node in self.nodes.values() for need in node.needs
        )
        if names is not None:
            for name in names:
                if name not in needs:
                    raise InputError(
                        f"no stage {name!r}",
                        where=str(Path(self._repo.root_dir) / PROJECT_FILE),
                        hint="`dvc stage list` prints them; params.yaml lists models and hardware",
                    )
            kept = set(names).union(*(nx.ancestors(needs, name) for name in names))
            needs = needs.subgraph(kept)
        return list(nx.topological_sort(needs))

    def stale(self, names: Sequence[str], forced: Collection[str] = ()) -> list[str]:
        """Those of `names`, which come in order, that may have to run: forced, changed now, or
        needing one that is."""
        stale: set[str] = set()
        with self._exclusively():
            for name in names:
                needed = any(need in stale for need in self.nodes[name].needs)
                if needed or name in forced or self._is_changed(self._stages[name]):
                    stale.add(name)
        return [name for name in names if name in stale]

    def is_fresh(self, name: str) -> bool:
        """Whether a stage's outputs are what they must be; ask once its needs are up to date."""
        stage = self._stages[name]
        with self._exclusively():
            for dependency in stage.deps:
                self._prints.look_again(dependency)
            return not self._is_changed(stage)

    def restore(self, name: str) -> bool:
        """Brings a stage's outputs back, if it ever ran with these inputs: as dvc.lock has it, or
        else the run-cache; from the default remote where the cache lacks the files.

        Raises:
            InputError: a dependency is missing.
        """
        stage = self._stages[name]
        with self._exclusively():
            if not may_be_restored(stage):
                return False
            known = self._as_recorded(stage)
            self._note_inputs(stage)
            known = known or self._runs.find(stage)
            if known is None:
                return False
            self._runs.pull(known)
            if not known.outs_cached():
                return False
            for out in known.outs:
                out.checkout(force=True)
            found = {out.def_path: out for out in known.outs}
            for out in stage.outs:
                twin = found[out.def_path]
                self._note_output(out, Print(twin.meta, twin.hash_info))
            self._note_done(stage)
            return True

    def keep(self, name: str) -> None:
        """Takes the outputs of a frozen stage as they are.

        Raises:
            InputError: one is missing.
        """
        stage = self._stages[name]
        missing = next((out for out in stage.outs if not out.exists), None)
        if missing is not None:
            raise InputError(
                f"{name} is frozen, and its output {missing.def_path} is missing",
                hint=f"`dvc checkout {name}`, or `dvc unfreeze {name}` and run again",
            )
        with self._exclusively():
            self._note_inputs(stage)
        self.finish(name)

    def begin(self, name: str) -> None:
        """Notes the inputs of a stage that is about to run, and removes its old outputs, and what a
        killed run of it left beside them.

        Raises:
            InputError: a dependency is missing.
        """
        stage = self._stages[name]
        with self._exclusively():
            self._note_inputs(stage)
            for out in stage.outs:
                if not out.persist:
                    out.remove()
                Path(out.fs_path).parent.mkdir(parents=True, exist_ok=True)
            outputs = [Path(out.fs_path) for out in stage.outs]
            remove_leftovers(outputs, Path(self._repo.root_dir))

    def finish(self, name: str) -> None:
        """Saves what a stage wrote to the cache, and that it did to the run-cache.

        Raises:
            InputsChangedError: an input changed while the stage ran, so the outputs prove nothing.
            InputError: it didn't write an output, or the cache can't be written.
        """
        stage = self._stages[name]
        with self._exclusively():
            self._check_inputs(stage)
            try:
                for out in stage.outs:
                    if not out.exists:
                        raise InputError(
                            f"{name} ended without writing {out.def_path}",
                            hint="let its command write what dvc.yaml lists, or mend the list",
                        )
                    out.add(relink=self._relinks)
                    self._note_output(out, Print(out.meta, out.hash_info))
                if may_be_saved(stage):
                    self._runs.save(stage)
            except OSError as error:
                raise InputError(
                    f"the results of {name} can't be saved: {error.strerror or error}",
                    where=self._repo.cache.local.path,
                    hint="free some space there, or move it with `dvc cache dir`; what other "
                    "stages saved is kept",
                ) from error
            except DvcException as error:
                raise InputError(f"the results of {name} can't be saved: {error}") from error
            self._note_done(stage)

    @contextmanager
    def claimed(self, names: Iterable[str]) -> Iterator[None]:
        """Keeps `dvc` commands of the user from these stages' outputs meanwhile: they end at once,
        and name us.

        Raises:
            InputError: such a command uses one now.
        """
        outs = [out.fs_path for name in names for out in self._stages[name].outs]
        with claim(self._repo, outs):
            yield

    def sweep(self) -> None:
        """Removes what killed runs left in the cache."""
        sweep_cache(Path(self._repo.cache.local.path))

    def record(self) -> None:
        """Writes dvc.lock once for all that was restored or ran, whole or not at all."""
        with self._exclusively():
            by_lockfile: dict[str, list[PipelineStage]] = {}
            for name in self.nodes:
                if name in self._done:
                    stage = self._done[name]
                    by_lockfile.setdefault(stage.dvcfile._lockfile.path, []).append(stage)
            for path, stages in by_lockfile.items():
                write_lockfile(Path(path), stages)
            self._done.clear()

    @property
    def has_remote(self) -> bool:
        """Whether a default remote is set."""
        return bool(self._repo.config["core"].get("remote"))

    def push(self, names: Iterable[str], remote: str = "") -> Moved:
        """Sends what these stages made to a remote, with their run-cache entries; only those whose
        outputs are there, and up to date.

        Raises:
            RemoteError: no remote, or it can't be written.
        """
        with self._exclusively():
            stages = [self._stages[name] for name in names]
            ready = [stage for stage in stages if not self._is_changed(stage)]
            entries = [path for stage in ready for path in self._runs.entries(stage)[:1]]
            return dvc_remote.push(self._repo, ready, entries, remote)

    def fetch(self, names: Sequence[str], remote: str = "") -> Moved:
        """Brings the run-cache entries that others sent to a remote, and the files that restoring
        these stages will ask for, all at once: one by one, each stage takes a second of S3.

        `names` come in order. What the remote doesn't have is left to be made.

        Raises:
            RemoteError: no remote, or it can't be read.
        """
        with self._exclusively():
            entries = dvc_remote.fetch_entries(self._repo, remote)
            objects = dvc_remote.fetch_outputs(self._repo, self._expected(names), remote)
            return Moved(objects, entries)

    def _expected(self, names: Sequence[str]) -> Iterator[Output]:
        """What the run-cache says that stale stages will make, as far as the cache lacks it."""
        made: dict[str, Print] = {}
        own = self._made()
        for name in names:
            stage = self._stages[name]
            if not self._is_changed(stage) and not any(dep.fs_path in made for dep in stage.deps):
                continue
            looks = {
                dep: made.get(dep.fs_path)
                or (MISSING if dep.fs_path in own else self._prints.look(dep))
                for dep in stage.deps
            }
            if MISSING in looks.values() or not may_be_restored(stage):
                continue
            for dependency, look in looks.items():
                dependency.meta, dependency.hash_info = look.meta, look.hash_info
            cached = self._runs.find(stage)
            if cached is None:
                continue
            for out in cached.outs:
                made[out.fs_path] = Print(out.meta, out.hash_info)
            if not cached.outs_cached():
                yield from cached.outs

    def source_print(self, name: str) -> str:
        """A digest of all that a stage depends on and no other stage makes: its command, its
        parameters, and the files that people write."""
        stage = self._stages[name]
        made = self._made()
        with self._exclusively():
            sources = {}
            for dependency in stage.deps:
                if dependency.fs_path not in made:
                    look = self._prints.look(dependency)
                    sources[dependency.def_path] = str(look.hash_info)
        content = {"command": stage.cmd, "sources": sources}
        return str(dict_sha256(content))

    def _made(self) -> set[str]:
        return {out.fs_path for stage in self._stages.values() for out in stage.outs}

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        """One thread at a time, and no `dvc` command of the user beside it."""
        with self._mutex, self._repo.lock:
            yield

    def _is_changed(self, stage: PipelineStage) -> bool:
        if stage.changed_stage():
            return True
        if not stage.frozen and (stage.is_callback or stage.always_changed):
            return True
        inputs = () if stage.frozen else stage.deps
        return any(map(self._prints.differs, inputs)) or any(map(self._prints.is_lost, stage.outs))

    def _as_recorded(self, stage: PipelineStage) -> PipelineStage | None:
        """The stage with the outputs that dvc.lock says it has, where its inputs are those too."""
        changed = stage.changed_stage() or any(map(self._prints.differs, stage.deps))
        if changed or not all(out.hash_info for out in stage.outs):
            return None
        recorded = self._runs.recorded(stage)
        return recorded if recorded.outs_cached() else None

    def _note_inputs(self, stage: PipelineStage) -> None:
        for dependency in stage.deps:
            now = self._prints.look_again(dependency)
            if now is MISSING:
                raise InputError(
                    f"{stage.addressing} depends on {dependency.def_path}, which is missing",
                    where=str(Path(self._repo.root_dir) / PROJECT_FILE),
                    hint="add the file, or `dvc pull` it, or take its model or device out of "
                    "params.yaml's matrix",
                )
            dependency.meta, dependency.hash_info = now.meta, now.hash_info

    def _check_inputs(self, stage: PipelineStage) -> None:
        for dependency in stage.deps:
            if self._prints.look_again(dependency).hash_info != dependency.hash_info:
                raise InputsChangedError(
                    f"{dependency.def_path} changed while {stage.addressing} ran",
                    hint="run again: its outputs were thrown away",
                )

    def _note_output(self, out: Output, now: Print) -> None:
        out.meta, out.hash_info, out.files = now.meta, now.hash_info, None
        self._prints.note(out, now)

    def _note_done(self, stage: PipelineStage) -> None:
        stage.cmd_changed = False
        self._done[stage.addressing] = stage


@contextmanager
def open_graph(root: Path) -> Iterator[DvcGraph]:
    """The graph of a folder, which becomes the current folder meanwhile.

    Raises:
        InputError: no DVC project there, or dvc.yaml, params.yaml or dvc.lock is wrong.
    """
    logging.getLogger("dvc").setLevel(logging.WARNING)
    before = Path.cwd()
    os.chdir(root)
    try:
        try:
            repo = Repo(".", _wait_for_lock=True)
        except NotDvcRepoError as error:
            raise InputError(
                "no DVC project", where=str(root), hint="run `git init && dvc init` there"
            ) from error
        with repo:
            try:
                graph = DvcGraph(repo)
            except DvcException as error:
                hint = _ROLLBACK if LOCK_FILE in str(error) else _MEND
                raise InputError(
                    f"DVC can't read the graph: {error}", where=str(root), hint=hint
                ) from error
            yield graph
    finally:
        os.chdir(before)


def source_prints(root: Path) -> Mapping[Step, str]:
    """For each step a digest of what it depends on that no other step makes: where two trees'
    digests differ, the step is affected.

    Raises:
        InputError: as `open_graph`.
    """
    with open_graph(root) as graph:
        return {
            node.step: graph.source_print(node.name)
            for node in graph.nodes.values()
            if node.step is not None
        }
