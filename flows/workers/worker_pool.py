"""A Prefect work pool: shards given to its workers, and what became of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, State, WorkerStatus
from prefect.deployments import arun_deployment
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled
from prefect.utilities.callables import parameter_schema

from flows.terminal.outcomes import printable
from flows.workers.shard_parameters import Fate, ShardParameters
from stages.errors import InputError

FLOW_NAME = "matrix-shard"
ENTRYPOINT = "flows.workers.matrix_shard.matrix_shard"
"""A module: workers have the project installed, and fetch no code."""
_POLL_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Pool:
    """Where shards go. Where no worker of the pool is online for `absence_seconds`, or a shard
    hasn't ended after `patience_seconds`, it is given up."""

    name: str
    absence_seconds: float = 120.0
    patience_seconds: float = 8 * 3600.0


@dataclass(slots=True)
class _Watch:
    """Shards in progress."""

    pool: Pool
    client: PrefectClient
    say: Callable[[str], None]
    running: dict[UUID, ShardParameters] = field(default_factory=dict)
    shown: dict[UUID, str] = field(default_factory=dict)
    fates: list[Fate] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    last_seen: float = field(default_factory=time.monotonic)


def run_shards(
    pool: Pool, shards: Sequence[ShardParameters], say: Callable[[str], None]
) -> list[Fate]:
    """Starts every shard on the pool, and waits for all. Inside a flow run they are its subflows.

    Raises:
        InputError: the server has no such work pool.
    """
    return asyncio.run(_run_shards(pool, shards, say))


async def _run_shards(
    pool: Pool, shards: Sequence[ShardParameters], say: Callable[[str], None]
) -> list[Fate]:
    async with get_client() as client:
        deployment = await _deployed(client, pool)
        watch = _Watch(pool, client, say)
        try:
            for shard in shards:
                run = await arun_deployment(
                    deployment,
                    client=client,
                    parameters=shard.as_json(),
                    timeout=0,
                    tags=["shard"],
                )
                watch.running[run.id] = shard
            while watch.running:
                await _look(watch)
                if watch.running:
                    await asyncio.sleep(_POLL_SECONDS)
        finally:
            await _give_up(watch, "the run that asked for it has ended")
        return sorted(watch.fates, key=lambda fate: fate.shard.number)


async def _deployed(client: PrefectClient, pool: Pool) -> UUID:
    """The deployment of the shard flow on this pool; made, or brought up to date."""
    try:
        await client.read_work_pool(pool.name)
    except ObjectNotFound as error:
        raise InputError(
            f"the Prefect server has no work pool {pool.name!r}",
            where=str(client.api_url),
            hint=f"`prefect work-pool create {pool.name} --type process`, then on each machine "
            f"`prefect worker start --pool {pool.name}`; PREFECT_API_URL names the server",
        ) from error
    from flows.workers.matrix_shard import matrix_shard

    return await client.create_deployment(
        flow_id=await client.create_flow_from_name(FLOW_NAME),
        name=pool.name,
        work_pool_name=pool.name,
        entrypoint=ENTRYPOINT,
        description="One shard of the matrix; started by the run that cut it",
        parameter_openapi_schema=parameter_schema(matrix_shard).model_dump_for_openapi(),
        tags=["shard"],
    )


async def _look(watch: _Watch) -> None:
    runs = [await watch.client.read_flow_run(number) for number in watch.running]
    for run in runs:
        if run.state is not None:
            _note(watch, run, run.state)
    now = time.monotonic()
    if watch.running:
        workers = await watch.client.read_workers_for_work_pool(watch.pool.name)
        if any(worker.status == WorkerStatus.ONLINE for worker in workers):
            watch.last_seen = now
    if now - watch.last_seen > watch.pool.absence_seconds:
        await _give_up(watch, f"no worker of {watch.pool.name!r} is online")
    elif now - watch.began > watch.pool.patience_seconds:
        await _give_up(watch, f"not done after {watch.pool.patience_seconds:.0f} s")


def _note(watch: _Watch, run: FlowRun, state: State[object]) -> None:
    shard = watch.running[run.id]
    name = state.name or state.type.value
    if watch.shown.get(run.id) != name:
        watch.shown[run.id] = name
        said = f": {state.message}" if state.message else ""
        watch.say(printable(f"shard {shard.number}, {len(shard.pairs)} pairs: {name}{said}"))
    if state.is_final():
        del watch.running[run.id]
        message = state.message or name
        watch.fates.append(Fate(shard, state.is_completed(), f"{name}: {message}"))


async def _give_up(watch: _Watch, why: str) -> None:
    """Cancels what is left, so that nobody begins it later."""
    for number, shard in list(watch.running.items()):
        await watch.client.set_flow_run_state(number, Cancelled(message=why), force=True)
        watch.say(f"shard {shard.number}, {len(shard.pairs)} pairs: given up, {why}")
        watch.fates.append(Fate(shard, False, f"given up: {why}"))
        del watch.running[number]
