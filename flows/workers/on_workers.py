"""The matrix on many machines: cut into shards, run by workers, collected.

There is no scheduler here. Prefect or Dask gives shards to workers, DVC's run-cache carries their
results, and the run that collects is an ordinary run of the matrix: it restores what the workers
made, and makes itself what they didn't. So a shard that dies costs time, never a result.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.client.schemas.objects import State

from flows.dvc_graph.graph import open_graph
from flows.dvc_graph.remote import RemoteError
from flows.git.command import find_commit, git
from flows.matrix import run_matrix
from flows.project.places import Project
from flows.project.requests import Pair
from flows.running.flow_call import end_state
from flows.running.matrix_session import forced_names
from flows.steps.matrix_request import MatrixRequest, MatrixResult, places_in
from flows.terminal.terminal import Terminal
from flows.workers.run_cache import fetch_run_cache, push_run_cache
from flows.workers.shard_parameters import Checkout, Crew, Dispatch, Fate, ShardParameters
from flows.workers.shards import Shard, split
from stages.errors import InputError


@dataclass(frozen=True, slots=True)
class WorkersRequest:
    """A matrix to be run by workers.

    `matrix.root` is the workspace that collects; `checkout` is what it holds, as workers can make
    it. `dispatch` gives shards to workers: `worker_pool.run_shards` to those of a Prefect pool,
    `dask_shards.run_shards` to those of a Dask cluster; `place` names either.
    """

    matrix: MatrixRequest
    checkout: Checkout
    dispatch: Dispatch
    place: str
    shards: int


def run_on_pool(
    crew: Crew,
    project: Project,
    matrix: MatrixRequest,
    params: Mapping[str, object],
    terminal: Terminal,
) -> MatrixResult:
    """`run_on_workers` with the workers of a Prefect pool, on the project's commit.

    `matrix.root` is a workspace of the project's files, opened with `params` as its overlay.

    Raises:
        InputError: files differ from the commit; or as `run_on_workers`.
        GitError: the project is in no Git repository.
    """
    from flows.workers.worker_pool import Pool, run_shards

    tree = committed_tree(project)
    checkout = Checkout(tree=tree, params=params, jobs=matrix.jobs)
    dispatch = partial(run_shards, Pool(crew.work_pool))
    request = WorkersRequest(matrix, checkout, dispatch, crew.work_pool, crew.shards)
    return run_on_workers(request, terminal)


def committed_tree(project: Project) -> str:
    """The project's commit, which workers can check out.

    Raises:
        InputError: files differ from it.
        GitError: the project is in no Git repository, or has no commit.
    """
    changed = git(project.root, "status", "--porcelain", "--", ".").splitlines()
    if changed:
        raise InputError(
            f"{len(changed)} files differ from the commit that workers would check out",
            where=str(project.root),
            hint="commit them, or run without `--shards`; `git status` lists them",
        )
    return find_commit(project.root, "HEAD")


@dataclass(slots=True)
class _Call:
    request: WorkersRequest
    shards: tuple[Shard, ...]
    terminal: Terminal
    result: MatrixResult | None = None


_call: ContextVar[_Call] = ContextVar("matrix_on_workers")


def run_on_workers(request: WorkersRequest, terminal: Terminal) -> MatrixResult:
    """Runs what is stale on the workers, and collects everything in `request.matrix.root`.

    Where nothing is stale nobody is asked. A shard that dies, or can't share its results, is
    named; its pairs are run here.

    Raises:
        InputError: as `run_matrix`; or the server has no such work pool, or `shards` is below one.
    """
    pairs = stale_pairs(request.matrix)
    models = {pair.model for pair in pairs}
    sizes = {model: model_bytes(request.matrix.root, model) for model in models}
    shards = split(pairs, request.shards, sizes)
    if not shards:
        return run_matrix(request.matrix, terminal)
    call = _Call(request, shards, terminal)
    token = _call.set(call)
    try:
        root = request.matrix.root
        state = matrix_on_workers(root.name, len(shards), request.place, return_state=True)
        if call.result is None:
            state.result()  # raises what broke the flow itself
    finally:
        _call.reset(token)
    assert call.result is not None
    return call.result


@flow(
    name="matrix-on-workers",
    flow_run_name="{shards} shards on {place}",
    validate_parameters=False,
)
def matrix_on_workers(workspace: str, shards: int, place: str) -> State[Any]:
    """Shards, then the matrix that restores what they made."""
    call = _call.get()
    matrix = call.request.matrix
    forced = tuple(sorted(matrix.forced))
    orders = [
        ShardParameters(shard.number, shard.pairs, call.request.checkout, forced)
        for shard in call.shards
    ]
    fates = call.request.dispatch(orders, call.terminal.say)
    create_table_artifact(table=fate_rows(fates), key="shards", description="What became of shards")
    lost = [fate for fate in fates if not fate.shared]
    for fate in lost:
        call.terminal.say(
            f"shard {fate.shard.number} gave nothing to share ({fate.message}); "
            f"its {len(fate.shard.pairs)} pairs run here"
        )
    _collect(matrix.root, [pair for order in orders for pair in order.pairs], call.terminal)
    call.result = run_matrix(replace(matrix, forced=frozenset()), call.terminal)
    _share(matrix.root, [pair for fate in lost for pair in fate.shard.pairs], call.terminal)
    outcome = call.result.outcome
    said = f"{outcome.name}: {len(fates) - len(lost)} of {len(fates)} shards shared"
    return end_state(outcome, said)


def _collect(root: Path, pairs: list[Pair], terminal: Terminal) -> None:
    """A remote that is down is no end: what isn't fetched is made here."""
    try:
        fetch_run_cache(root, pairs)
    except RemoteError as error:
        terminal.say(f"{error}")


def _share(root: Path, pairs: list[Pair], terminal: Terminal) -> None:
    """What had to be made here, for others."""
    try:
        if pairs:
            push_run_cache(root, pairs)
    except RemoteError as error:
        terminal.say(f"{error}")


def stale_pairs(request: MatrixRequest) -> list[Pair]:
    """The pairs that something is to be done for.

    Raises:
        InputError: no DVC project there, or its files are wrong.
    """
    with open_graph(request.root) as graph:
        order = graph.select()
        steps = {name: node.step for name, node in graph.nodes.items()}
        forced = forced_names(graph.nodes, request.forced)
        stale = {steps[name] for name in graph.stale(order, forced)}
    pairs = {
        Pair(step.model, step.hardware)
        for step in steps.values()
        if step is not None and step.hardware and step in stale
    }
    wanted = pairs if request.pairs is None else pairs & request.pairs
    return sorted(wanted)


def model_bytes(root: Path, model: str) -> int:
    """How large a model is, as far as can be told: its normalised form from the last time, or else
    what lies in its folder. Only the balance of shards depends on it."""
    for folder in (places_in(root, model).normalized, Project(root).registry / model):
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        if sizes:
            return sum(sizes)
    return 0


def fate_rows(fates: list[Fate]) -> list[dict[str, str]]:
    """Rows of the table artifact, what was lost first."""
    rows = sorted(fates, key=lambda fate: (fate.shared, fate.shard.number))
    return [
        {
            "shard": str(fate.shard.number),
            "pairs": str(len(fate.shard.pairs)),
            "models": ", ".join(dict.fromkeys(pair.model for pair in fate.shard.pairs)),
            "shared": "yes" if fate.shared else "no",
            "state": fate.message,
        }
        for fate in rows
    ]
