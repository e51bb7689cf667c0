"""Shards as tasks on a Dask cluster, for a matrix so wide that a cluster is at hand.

Needs the extra `dask` (prefect-dask). Workers must have one thread each, since a run changes the
current folder: `dask worker ADDRESS --nthreads 1`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.futures import wait
from prefect.states import Completed
from prefect.task_runners import TaskRunner

from flows.terminal.outcomes import printable
from flows.workers.shard_parameters import Checkout, Fate, Say, ShardParameters, read_parameters
from stages.errors import InputError


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Dask scheduler's address, such as tcp://scheduler:8786."""

    address: str
    join_seconds: float = 30.0
    """How long to wait for it, and for the first of its workers."""


def run_shards(cluster: Cluster, shards: Sequence[ShardParameters], say: Say) -> list[Fate]:
    """Gives every shard to the cluster, and waits for all. Inside a flow run this is its subflow.

    Raises:
        InputError: prefect-dask isn't installed, no scheduler answers, it has no worker, or one
            with several threads.
    """
    try:
        from prefect_dask.task_runners import DaskTaskRunner
    except ImportError as error:
        raise InputError(
            "prefect-dask isn't installed", hint="`pip install recipe-pipeline[dask]`"
        ) from error
    _check(cluster)
    runner = cast("TaskRunner[Any]", DaskTaskRunner(address=cluster.address))
    states: list[State[Any]] = []
    token = _states.set(states)
    try:
        matrix_on_dask.with_options(task_runner=runner)([shard.as_json() for shard in shards])
    finally:
        _states.reset(token)
    return [_fate(shard, state, say) for shard, state in zip(shards, states, strict=True)]


def _check(cluster: Cluster) -> None:
    import distributed

    connect: Any = distributed.Client  # untyped
    try:
        with connect(cluster.address, timeout=cluster.join_seconds) as client:
            client.wait_for_workers(1, timeout=cluster.join_seconds)
            threads = client.nthreads()
    except (OSError, TimeoutError) as error:
        raise InputError(
            f"no Dask cluster with a worker answers: {error}",
            where=cluster.address,
            hint="start `dask scheduler`, and on each machine `dask worker ADDRESS --nthreads 1`",
        ) from error
    wide = sorted(name for name, count in threads.items() if count > 1)
    if wide:
        raise InputError(
            f"the Dask worker {wide[0]} has {threads[wide[0]]} threads",
            where=cluster.address,
            hint="start workers with `--nthreads 1`, several on a machine: a run changes the "
            "current folder",
        )


def _fate(shard: ShardParameters, state: State[Any], say: Say) -> Fate:
    name = state.name or state.type.value
    message = f"{name}: {state.message}" if state.message else name
    say(printable(f"shard {shard.number}, {len(shard.pairs)} pairs: {message}"))
    return Fate(shard, state.is_completed(), message)


_states: ContextVar[list[State[Any]]] = ContextVar("states_of_shards")


def _note(states: list[State[Any]]) -> None:
    """A function of its own: the flow travels to the workers, a context variable can't."""
    _states.get().extend(states)


@flow(name="matrix-on-dask")
def matrix_on_dask(shards: list[dict[str, Any]]) -> State[Any]:
    """A task for each shard."""
    named = [dask_shard.with_options(task_run_name=f"shard {shard['number']}") for shard in shards]
    futures = [one.submit(shard) for one, shard in zip(named, shards, strict=True)]
    wait(futures)
    states = [future.state for future in futures]
    _note(states)
    done = sum(state.is_completed() for state in states)
    return Completed(message=f"{done} of {len(states)} shards shared")


@task(name="matrix-shard", cache_policy=NO_CACHE)
def dask_shard(shard: dict[str, Any]) -> State[Any]:
    """As the flow `matrix-shard`, with its parameters."""
    from flows.workers.matrix_shard import run_shard

    checkout = Checkout(shard["project"], shard["tree"], shard["params"], shard["jobs"])
    given = read_parameters(shard["number"], shard["pairs"], checkout, shard["forced"])
    return run_shard(given)
