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

from flows.dvc_remote import RemoteError
from flows.git import git, has_object
from flows.matrix import run_matrix
from flows.matrix_request import MatrixRequest, MatrixResult
from flows.outcomes import printable
from flows.overlay import Overlay
from flows.places import Project, find_project
from flows.requests import Pair
from flows.run_cache import fetch_run_cache, push_run_cache
from flows.shard_parameters import ShardParameters, read_parameters
from flows.stage_calls import Stage
from flows.terminal import Terminal
from flows.workspace import open_workspace


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

    `project` is a folder of the worker; empty means the one that its code belongs to, or that
    RECIPE_ROOT names. `tree` is a commit, fetched where it is missing; none means the folder as it
    is. `params` overlay params.yaml; stages in `forced` run even where they are fresh.

    A verdict FAIL is an answer: the run has completed. It fails where its results can't be shared.
    """
    shard = read_parameters(pairs or [], number, params or {}, forced or [])
    place = Project(Path(project)) if project else find_project()
    if tree and not has_object(place.root, tree):
        git(place.root, "fetch", "--quiet", "--all")
    return run_shard(place, shard, tree, jobs)


def run_shard(
    project: Project, shard: ShardParameters, tree: str | None, jobs: int | None
) -> State[Any]:
    """Runs a shard in its workspace, and shares its results.

    Raises:
        RecipeError: the workspace can't be made, or dvc.yaml has no such pair.
    """
    terminal = Terminal()
    overlay = Overlay(params=shard.overlay())
    name = f"shard-{shard.number}"
    with open_workspace(project, name, tree, overlay, terminal.say) as root:
        _learn(root, shard.pairs)
        forced = frozenset(map(Stage, shard.forced))
        request = MatrixRequest(root, frozenset(shard.pairs), forced, jobs, tags=(name,))
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
