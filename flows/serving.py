"""Deployments on the user's own Prefect server: each flow with its schedule, trigger and limit.

Importing this module imports Prefect; making the deployments imports every flow.
"""

from __future__ import annotations

import contextlib
import os
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from prefect import Flow, get_client, serve
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.deployments.runner import RunnerDeployment
from prefect.events import DeploymentEventTrigger
from prefect.exceptions import ObjectNotFound, PrefectException
from prefect.schedules import Cron, Schedule
from prefect.settings import get_current_settings
from prefect.types.entrypoint import EntrypointType

from flows.project.params import load_params
from flows.project.places import Project
from flows.repositories.model_repository import RepositoryConfig, load_repositories
from stages.errors import InputError

PUSHED = "recipe.model-repository.pushed"
"""The event that docs/ci/post-receive posts; its resource is RESOURCE_PREFIX + NAME."""
RESOURCE_PREFIX = "recipe.model-repository."
SERVED_TAG = "recipe serve"
_PATIENCE_SECONDS = 10.0
_QUIET = ("DO_NOT_TRACK", "DVC_NO_ANALYTICS")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What the command line says; None means what params.yaml says. `base` is the merge gate's."""

    cron: str | None = None
    timezone: str | None = None
    base: str = "main"
    jobs: int | None = None
    limit: int = 2


@dataclass(frozen=True, slots=True)
class Served:
    """A deployment, and in words when it runs."""

    deployment: RunnerDeployment
    when: str

    @property
    def name(self) -> str:
        """`FLOW/DEPLOYMENT`, as Prefect's command line has it."""
        return f"{self.deployment.flow_name}/{self.deployment.name}"


def server_address() -> str:
    """Where Prefect's API is: the environment's or the active profile's.

    Raises:
        InputError: neither names one, or nobody answers there.
    """
    address = get_current_settings().api.url
    if not address:
        raise InputError(
            "no Prefect server to serve on",
            where="PREFECT_API_URL is unset",
            hint="start one that stays up with `prefect server start`, then set "
            "PREFECT_API_URL=http://127.0.0.1:4200/api: schedules on the server that a run brings "
            "with it would end with that run",
        )
    try:
        httpx.get(f"{address}/health", timeout=_PATIENCE_SECONDS)
    except httpx.HTTPError as error:
        raise InputError(
            f"no Prefect server answers: {error}",
            where=f"PREFECT_API_URL={address}",
            hint="start it with `prefect server start`, or mend the address",
        ) from error
    return str(address)


@contextmanager
def _asking() -> Iterator[None]:
    """What the server refuses, in words.

    Raises:
        InputError: instead of Prefect's errors.
    """
    try:
        yield
    except (PrefectException, httpx.HTTPError) as error:
        raise InputError(
            f"the Prefect server doesn't take this: {error}",
            where=str(get_current_settings().api.url),
            hint="if a deployment of the same name was made otherwise, delete it there: "
            "`prefect deployment delete FLOW/NAME`",
        ) from error


def make_deployments(project: Project, options: ServeOptions) -> list[Served]:
    """`commit/NAME` for each model repository, `nightly/nightly`, `merge-gate/merge-gate`.

    Raises:
        InputError: params.yaml or repositories.yaml is wrong, or a schedule in them.
    """
    night = _nightly(project, options)  # first: its time zone is everyone's
    repositories = load_repositories(project)
    commits = [_commit(project, config, options) for config in repositories.values()]
    return [*commits, night, _merge_gate(project, options)]


def serve_deployments(deployments: Sequence[Served], limit: int) -> None:
    """Registers the deployments and runs what they are asked for, until it is told to end.

    Schedules stay active while nobody serves: what became due then runs at the next start.

    Raises:
        InputError: the server doesn't take a deployment.
    """
    os.environ.update({name: os.environ.get(name, "1") for name in _QUIET})
    made = (served.deployment for served in deployments)
    with _asking():
        serve(*made, pause_on_shutdown=False, print_starting_message=False, limit=limit)


def pause_others(project: Project, deployments: Sequence[Served]) -> list[str]:
    """Pauses what an earlier `recipe serve` of this project registered and this one doesn't.

    Nobody would run it any more. Gives the names.
    """
    kept = {served.name for served in deployments}
    wanted = DeploymentFilter(tags=DeploymentFilterTags(all_=[SERVED_TAG]))
    paused = []
    with _asking(), get_client(sync_client=True) as client:
        for found in client.read_deployments(deployment_filter=wanted):
            name = f"{client.read_flow(found.flow_id).name}/{found.name}"
            ours = (found.parameters or {}).get("project") == str(project.root)
            if ours and not found.paused and name not in kept:
                client.pause_deployment(found.id)
                client.delete_resource_owned_automations(f"prefect.deployment.{found.id}")
                paused.append(name)
    return sorted(paused)


def catch_up(deployments: Sequence[Served]) -> list[str]:
    """Asks each deployment that an event starts, and that was served before, for a run.

    An event that came to nothing (its run was cancelled when the last `recipe serve` ended, or the
    server was down) is made up for; where nothing is new the run says so in a second. Gives the
    names.
    """
    asked = []
    with _asking(), get_client(sync_client=True) as client:
        for served in deployments:
            if not served.deployment.triggers:
                continue
            with contextlib.suppress(ObjectNotFound):
                known = client.read_deployment_by_name(served.name)
                client.create_flow_run_from_deployment(known.id, tags=["catch up"])
                asked.append(served.name)
    return asked


def _commit(project: Project, config: RepositoryConfig, options: ServeOptions) -> Served:
    from flows.commit import commit

    timezone = options.timezone or load_params(project.params).nightly.timezone
    name = config.name
    pushed = DeploymentEventTrigger(
        name=f"{name}: pushed",
        description=f"A push to {name} starts commit/{name}",
        expect={PUSHED},
        match={
            "prefect.resource.id": f"{RESOURCE_PREFIX}{name}",
            "recipe.branch": config.branch,
        },
    )
    where = f"`poll` of {name!r} in models/repositories.yaml"
    return _deployment(
        commit,
        name,
        f"What changed in {config.shown_url} since the last commit that was processed.",
        {"project": str(project.root), "repository": name, "jobs": options.jobs},
        schedule=_Schedule("poll", config.poll, timezone, where) if config.poll else None,
        event=pushed,
        tags=("commit", name),
    )


def _nightly(project: Project, options: ServeOptions) -> Served:
    from flows.nightly import nightly

    params = load_params(project.params).nightly
    where = "--cron and --timezone, or `nightly` in params.yaml"
    return _deployment(
        nightly,
        "nightly",
        "Every model on every device with fresh seeds, and what moved.",
        {"project": str(project.root), "jobs": options.jobs},
        schedule=_Schedule(
            "nightly", options.cron or params.cron, options.timezone or params.timezone, where
        ),
        collision=ConcurrencyLimitStrategy.CANCEL_NEW,  # a night of yesterday still runs
        tags=("nightly",),
    )


def _merge_gate(project: Project, options: ServeOptions) -> Served:
    from flows.merge_gate import merge_gate

    return _deployment(
        merge_gate,
        "merge-gate",
        "What a branch does to every recipe, before it is merged.",
        {"project": str(project.root), "base": options.base, "jobs": options.jobs},
        tags=("merge-gate",),
    )


def _deployment(
    flow: Flow[..., Any],
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    *,
    tags: tuple[str, ...],
    schedule: _Schedule | None = None,
    event: DeploymentEventTrigger | None = None,
    collision: ConcurrencyLimitStrategy = ConcurrencyLimitStrategy.ENQUEUE,
) -> Served:
    """One run at a time; the others wait, or are cancelled where the next makes up for them."""
    deployment = RunnerDeployment.from_flow(
        flow,
        name,
        description=description,
        parameters=dict(parameters),
        schedules=[schedule.checked()] if schedule else [],
        triggers=[event] if event else [],
        concurrency_limit=ConcurrencyLimitConfig(limit=1, collision_strategy=collision),
        tags=[SERVED_TAG, *tags],
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    when = [f"on {PUSHED}"] if event else []
    when += [f"at {schedule.cron!r} {schedule.timezone}"] if schedule else []
    return Served(deployment, " and ".join(when) or "when asked")


@dataclass(frozen=True, slots=True)
class _Schedule:
    """Cron's five fields in a time zone; `where` says who asked for it.

    By its slug the server knows the schedule again when either has changed; prefect.yaml has the
    same.
    """

    slug: str
    cron: str
    timezone: str
    where: str

    def checked(self) -> Schedule:
        """Prefect's form.

        Raises:
            InputError: it isn't cron's form, or nobody knows the time zone.
        """
        try:
            zoneinfo.ZoneInfo(self.timezone)
            return Cron(self.cron, timezone=self.timezone, slug=self.slug)
        except (ValueError, zoneinfo.ZoneInfoNotFoundError) as error:
            raise InputError(
                f"no schedule {self.cron!r} in {self.timezone!r}: {error}",
                where=self.where,
                hint='give five fields, such as "0 2 * * *" for every day at 2, and a time zone '
                "such as Europe/Berlin",
            ) from error
