"""What flows that run a task for each step share: threads, and names on Prefect's page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from prefect.runtime import flow_run
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

_MOST_NAMES = 3
_MOST_THREADS = 512  # they only wait; the places for commands and processes bound what runs
THREADS = cast("TaskRunner[Any]", ThreadPoolTaskRunner(max_workers=_MOST_THREADS))


def models_on_devices() -> str:
    """The name of a flow run with the parameters `models` and `hardware`."""
    given = flow_run.parameters
    return f"{_listed(given['models'], 'models')} on {_listed(given['hardware'], 'devices')}"


def _listed(names: Sequence[str], what: str) -> str:
    return ", ".join(names) if len(names) <= _MOST_NAMES else f"{len(names)} {what}"


def task_run_name(name: str) -> str:
    """As Prefect shows `name`: it takes braces for places of parameters."""
    return name.replace("{", "{{").replace("}", "}}")
