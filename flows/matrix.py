"""DVC's graph, executed by Prefect: a task for each stale step, side by side where the graph lets
them.

Importing this module imports Prefect and DVC, which takes two seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from operator import itemgetter
from pathlib import Path
from typing import Any

from prefect import Task, flow, get_run_logger, tags, task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.context import TagsContext
from prefect.futures import PrefectFuture, wait
from prefect.states import Completed, Failed
from prefect.utilities.annotations import allow_failure

from flows.dvc_graph.graph import DvcGraph, open_graph
from flows.dvc_graph.nodes import Node
from flows.locks.file_lock import file_lock
from flows.project.cores import usable_cores
from flows.project.places import Project
from flows.project.requests import Pair
from flows.running.flow_call import end_state
from flows.running.interrupts import stopped_by_interrupt
from flows.running.matrix_session import MatrixSession, NodeAnswer, forced_names
from flows.running.stage_command import StageCommands
from flows.running.step_tasks import THREADS, models_on_devices, task_run_name
from flows.steps.matrix_request import LOCK_FILE, MatrixRequest, MatrixResult, Standing
from flows.steps.matrix_table import matrix_rows
from flows.steps.progress import Progress
from flows.steps.stage_calls import Stage
from flows.terminal.outcomes import printable
from flows.terminal.terminal import Terminal
from stages.errors import InputError, Outcome

_session: ContextVar[MatrixSession] = ContextVar("matrix_session")


def run_matrix(request: MatrixRequest, terminal: Terminal) -> MatrixResult:
    """Brings pairs up to date, as a Prefect flow; inside another flow it is a subflow.

    Where nothing is stale nothing is run, and Prefect isn't asked. dvc.lock is written once, at the
    end, also after an interrupt: what ended is kept.

    Raises:
        InputError: no DVC project, dvc.yaml has no such pair, or dvc.lock can't be written.
    """
    root = request.root.resolve()
    with (
        file_lock(root / LOCK_FILE, f"the results of {root.name}", terminal.say) as lock,
        open_graph(root) as graph,
    ):
        session = _open_session(root, graph, request, lock, terminal)
        try:
            if session.stale:
                graph.sweep()
                with graph.claimed(session.stale):
                    _run_stale(session, request)
        finally:
            graph.record()
        for name in session.order:
            if name not in session.stale:
                session.answers[name] = session.fresh_answer(name)
        return session.result()


def _open_session(
    root: Path, graph: DvcGraph, request: MatrixRequest, lock: int, terminal: Terminal
) -> MatrixSession:
    order = graph.select(_names(graph.nodes, request))
    _make_baseline_folders(root, graph.nodes)
    forced = forced_names(graph.nodes, request.forced).intersection(order)
    stale = graph.stale(order, forced)
    return MatrixSession(
        root=root,
        graph=graph,
        order=order,
        stale=stale,
        forced=forced,
        commands=StageCommands(request.jobs or usable_cores(), root, lock),
        progress=Progress(terminal, len(stale)),
    )


def _make_baseline_folders(root: Path, nodes: Mapping[str, Node]) -> None:
    """Gates depend on their device's folder of baselines; a new device has none yet."""
    for node in nodes.values():
        if node.step is not None and node.step.stage is Stage.GATE:
            Project(root).baseline(node.step.hardware, "").parent.mkdir(parents=True, exist_ok=True)


def _names(nodes: Mapping[str, Node], request: MatrixRequest) -> list[str] | None:
    if request.pairs is None:
        return None
    found: dict[Pair, list[str]] = {pair: [] for pair in request.pairs}
    for node in nodes.values():
        if node.step is not None:
            pair = Pair(node.step.model, node.step.hardware)
            if pair in found:
                found[pair].append(node.name)
    for pair, names in sorted(found.items(), key=itemgetter(0)):
        if not names:
            raise InputError(
                f"the matrix has no pair {pair.model} on {pair.hardware}",
                where=str(request.root / "params.yaml"),
                hint="add both to `matrix`",
            )
    return [name for names in found.values() for name in names]


def _run_stale(session: MatrixSession, request: MatrixRequest) -> None:
    token = _session.set(session)
    try:
        session.progress.open()
        with stopped_by_interrupt(session.commands.stop), tags(*request.tags):
            steps = [session.graph.nodes[name].step for name in session.stale]
            models = sorted({step.model for step in steps if step})
            devices = sorted({step.hardware for step in steps if step and step.hardware})
            state = matrix(session.root.name, models, devices, return_state=True)
            if set(session.stale) - set(session.answers):
                state.result()  # raises what broke the flow itself
    finally:
        session.progress.close()
        session.commands.stop()
        _session.reset(token)


@flow(
    name="matrix",
    flow_run_name=models_on_devices,
    task_runner=THREADS,
    validate_parameters=False,
)
def matrix(workspace: str, models: list[str], hardware: list[str]) -> State[Any]:
    """The stale steps of these models and devices, in a workspace."""
    session = _session.get()
    futures: dict[str, PrefectFuture[Any]] = {}
    # The flow run has tags, its tasks don't: Prefect asks its server for a place for each of them.
    with TagsContext(current_tags=set()):
        for name in session.stale:
            node = session.graph.nodes[name]
            needed = [allow_failure(futures[need]) for need in node.needs if need in futures]
            futures[name] = _task_of(node).submit(name, wait_for=needed)
    wait(list(futures.values()))
    result = session.result()
    create_table_artifact(
        table=matrix_rows(result), key="matrix", description="What came of every pair that ran"
    )
    standings = [answer.standing for answer in session.answers.values()]
    counts = ", ".join(f"{standings.count(kind)} {kind}" for kind in Standing if kind in standings)
    return end_state(result.outcome, f"{result.outcome.name}: {counts}")


def _task_of(node: Node) -> Task[..., Any]:
    name = printable(node.name if node.step is None else f"{node.step.stage} {node.step.subject}")
    kind = "other" if node.step is None else node.step.stage.value
    return _TASKS[kind].with_options(task_run_name=task_run_name(name))


def _take(name: str) -> State[Any]:
    answer = _session.get().take(name)
    return _STATES[answer.standing](answer)


def _completed(answer: NodeAnswer) -> State[Any]:
    said = printable(f"{answer.verdict}: {answer.message}")
    if answer.outcome is not Outcome.PASSED:
        get_run_logger().error(said)
        return Failed(message=said)
    get_run_logger().info(said)
    return Completed(message=said)


def _spared(answer: NodeAnswer) -> State[Any]:
    """A step that didn't have to run."""
    state = _completed(answer)
    name = answer.standing.capitalize()
    return state if state.is_failed() else Completed(name=name, message=state.message)


def _failed(answer: NodeAnswer) -> State[Any]:
    get_run_logger().error(printable(answer.message))
    return Failed(message=printable(answer.message))


def _skipped(answer: NodeAnswer) -> State[Any]:
    return Completed(name="Skipped", message=printable(answer.message))


_STATES = {
    Standing.FRESH: _spared,
    Standing.RESTORED: _spared,
    Standing.RAN: _completed,
    Standing.FAILED: _failed,
    Standing.SKIPPED: _skipped,
}

_TASKS: dict[str, Task[..., Any]] = {
    kind: task(name=kind, cache_policy=NO_CACHE)(_take)
    for kind in (*(stage.value for stage in Stage), "other")
}
