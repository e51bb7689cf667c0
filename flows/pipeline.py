"""The six stages as a Prefect flow: a task for each step, side by side where nothing forbids it.

Importing this module imports Prefect, which takes a second; only `recipe run` does.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from prefect import Task, flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.futures import PrefectFuture, wait
from prefect.states import Completed, Failed
from prefect.utilities.annotations import allow_failure

from flows.running.engine import drain
from flows.running.flow_call import end_state
from flows.running.results import results_markdown
from flows.running.run_session import RunSession
from flows.running.step_tasks import THREADS, models_on_devices, task_run_name
from flows.steps.board import Step, needs_of, steps_of
from flows.steps.stage_calls import Stage, StageFailure
from flows.terminal.outcomes import printable, worst
from stages.errors import DeviceError, Outcome

_ARTIFACT = "recipe-run"
_RETRIED = frozenset({Stage.BENCHMARK, Stage.THERMAL_STRESS})
_RETRIES = 2
_RETRY_SECONDS = 1

_session: ContextVar[RunSession] = ContextVar("session")


def run_flow(session: RunSession) -> None:
    """Runs the flow for an open session; the answers are on its board afterwards."""
    token = _session.set(session)
    try:
        models = [model.name for model in session.request.models]
        devices = [device.name for device in session.request.devices]
        state = recipe_run(models, devices, return_state=True)
        if not session.reported:
            state.result()  # raises what broke the flow itself
    finally:
        _session.reset(token)
        drain()


@flow(
    name="recipe run",
    flow_run_name=models_on_devices,
    task_runner=THREADS,
    validate_parameters=False,
)
def recipe_run(models: list[str], hardware: list[str]) -> State[Any]:
    """All six stages for every model on every device."""
    session = _session.get()
    futures: dict[Step, PrefectFuture[Any]] = {}
    for pair in session.request.pairs():
        for step in steps_of(pair):
            if step not in futures:
                needed = [allow_failure(futures[need]) for need in needs_of(step)]
                name = task_run_name(f"{step.stage} {step.subject}")
                named = _TASKS[step.stage].with_options(task_run_name=name)
                futures[step] = named.submit(step.model, step.hardware, wait_for=needed)
    wait(list(futures.values()))
    create_markdown_artifact(
        results_markdown(session), key=_ARTIFACT, description="Results of every pair"
    )
    session.reported = True
    outcome = worst(session.board.outcomes())
    return end_state(outcome, f"{outcome.name}, exit code {outcome.value}")


def _take(step: Step) -> State[Any]:
    """Takes a step in the session; says in the page's words what came of it."""
    answer = _session.get().take(step)
    if answer is None:
        return Completed(name="Skipped", message="a stage before it gave no result")
    if isinstance(answer, StageFailure):
        get_run_logger().error(printable(answer.details or answer.message))
        if answer.outcome is Outcome.DEVICE_ERROR and step.stage in _RETRIED:
            raise DeviceError(answer.message)
        return Failed(message=answer.message)
    said = printable(f"{answer.verdict}: {answer.figure}")
    get_run_logger().info(said)
    return end_state(answer.outcome, said)


def _is_device_error(_task: Task[..., Any], _run: TaskRun, state: State[Any]) -> bool:
    """Whether trying again can help: only where a device couldn't be reached."""
    try:
        state.result()
    except DeviceError:
        return True
    except Exception:
        return False
    return False


def _make_task(stage: Stage) -> Task[..., Any]:
    def take(model: str, hardware: str) -> State[Any]:
        return _take(Step(stage, model, hardware))

    retried = stage in _RETRIED
    decorate = task(
        name=stage.value,
        cache_policy=NO_CACHE,
        retries=_RETRIES if retried else 0,
        retry_delay_seconds=_RETRY_SECONDS,
        retry_condition_fn=_is_device_error if retried else None,
    )
    return decorate(take)


_TASKS: dict[Stage, Task[..., Any]] = {stage: _make_task(stage) for stage in Stage}
