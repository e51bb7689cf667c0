"""Results shared between machines: to and from the DVC remote, before and after a run."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from flows.dvc_graph.graph import DvcGraph, open_graph
from flows.dvc_graph.remote import Moved
from flows.project.requests import Pair
from flows.steps.board import steps_of


def fetch_run_cache(root: Path, pairs: Collection[Pair], remote: str = "") -> Moved | None:
    """Learns what others ran, and brings the files that these pairs lack. None: no remote is set,
    so there is nobody to share with.

    Raises:
        RemoteError: the remote can't be read.
        InputError: as `open_graph`.
    """
    with open_graph(root) as graph:
        if not remote and not graph.has_remote:
            return None
        return graph.fetch(graph.select(_names(graph, pairs)), remote)


def push_run_cache(root: Path, pairs: Collection[Pair], remote: str = "") -> Moved | None:
    """Sends the results of these pairs as they lie in the folder. None: no remote is set.

    Raises:
        RemoteError: the remote can't be written; the results stay in this machine's cache.
        InputError: as `open_graph`.
    """
    with open_graph(root) as graph:
        if not remote and not graph.has_remote:
            return None
        return graph.push(_names(graph, pairs), remote)


def _names(graph: DvcGraph, pairs: Collection[Pair]) -> list[str]:
    wanted = {step for pair in pairs for step in steps_of(pair)}
    return [name for name, node in graph.nodes.items() if node.step in wanted]
