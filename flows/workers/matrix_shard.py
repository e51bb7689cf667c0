"""One shard of a matrix, as a Prefect flow that a worker runs in a workspace of its own.

What others made is fetched from the DVC remote before, what this made is pushed to it after. Where
no remote is set, the workers must share the project's DVC cache: as on one machine they do.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from flows.dvc_graph.remote import RemoteError
from flows.git.command import git, has_object
from flows.matrix import run_matrix
from flows.project.places import Project, find_project
from flows.project.requests import Pair
from flows.steps.matrix_request import MatrixRequest, MatrixResult
from flows.terminal.outcomes import printable
from flows.terminal.terminal import Terminal
from flows.workers.run_cache import fetch_run_cache, push_run_cache
from flows.workers.shard_parameters import Checkout, ShardParameters, read_parameters
from flows.workspaces.overlay import Overlay
from flows.workspaces.workspace import open_workspace


def _run_name() -> str:
    given = flow_run.parameters
    return f"shard {given['number']}: {len(given['pairs'])} pairs"


@flow(name="matrix-shard", flow_run_name=_run_name)
def matrix_shard(
    project: str = "",
    pairs: list[str] | None = None,
    jobs: int | None = None,
    number: int = 0,
    tree: str | None = None,
    params: dict[str, Any] | None = None,
    forced: list[str] | None = None,
) -> State[Any]:
    """Runs the pairs (MODEL/HARDWARE) of one shard.

    The other parameters are those of `shard_parameters.Checkout`; stages in `forced` run even
    where they are fresh. A verdict FAIL is an answer: the run has completed. It fails where its
    results can't be shared.
    """
    checkout = Checkout(project, tree, params or {}, jobs)
    return run_shard(read_parameters(number, pairs or [], checkout, forced or []))


def run_shard(shard: ShardParameters) -> State[Any]:
    """Runs a shard in its workspace, and shares its results. Inside a flow or task run only.

    Raises:
        RecipeError: the workspace can't be made, or dvc.yaml has no such pair.
    """
    terminal, wanted = Terminal(), shard.checkout
    project = Project(Path(wanted.project)) if wanted.project else find_project()
    if wanted.tree and not has_object(project.root, wanted.tree):
        git(project.root, "fetch", "--quiet", "--all")
    overlay = Overlay(params=shard.overlay())
    name = f"shard-{shard.number}"
    with open_workspace(project, name, wanted.tree, overlay, terminal.say) as root:
        _learn(root, shard.pairs)
        request = MatrixRequest(
            root, frozenset(shard.pairs), frozenset(shard.forced), wanted.jobs, tags=(name,)
        )
        result = run_matrix(request, terminal)
        return _share(root, result)


def _learn(root: Path, pairs: tuple[Pair, ...]) -> None:
    """What can't be fetched is made again: a remote that is down stops nobody here."""
    try:
        fetch_run_cache(root, pairs)
    except RemoteError as error:
        get_run_logger().warning(printable(str(error)))


def _share(root: Path, result: MatrixResult) -> State[Any]:
    said = summary(result)
    try:
        push_run_cache(root, result.pairs())
    except RemoteError as error:
        get_run_logger().error(printable(str(error)))
        return Failed(message=printable(f"not shared: {error.problem}; {said}"))
    return Completed(message=printable(said))


def summary(result: MatrixResult) -> str:
    """How many pairs came to what."""
    outcomes = Counter(result.outcome_of(pair).name for pair in result.pairs())
    return ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items())) or "no pairs"
