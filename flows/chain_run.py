"""Runs a request through the flow: server, processes, Ctrl-C, and the table at the end."""

from __future__ import annotations

from flows.project.requests import RunRequest
from flows.running.flow_server import FlowServer
from flows.running.interrupts import interruptible, stopped_by_interrupt
from flows.running.results import write_reports
from flows.running.run_session import RunSession
from flows.running.server_watch import watched
from flows.running.stage_process import StageProcesses
from flows.running.tables import show_results
from flows.steps.board import Step
from flows.steps.chain import CHAIN
from flows.steps.progress import Progress
from flows.steps.stage_calls import Stage
from flows.terminal.outcomes import worst
from flows.terminal.terminal import Terminal
from stages.errors import Outcome


def run_request(request: RunRequest, terminal: Terminal) -> Outcome:
    """Runs every pair; gives the worst outcome. Errors of one pair don't stop the others."""
    session = open_session(request, terminal)
    run_session(session)
    write_reports(session)
    show_results(session, terminal)
    return worst(session.board.outcomes())


def open_session(request: RunRequest, terminal: Terminal) -> RunSession:
    """A session for the request; nothing runs yet."""
    shared = len(request.models)
    total = shared + shared * len(request.devices) * (len(CHAIN) - 1)
    return RunSession(request, StageProcesses(request.jobs), Progress(terminal, total))


def run_session(session: RunSession) -> None:
    """Takes a session through the flow.

    The server, the stages' imports and the first models' normalisation start at once; Prefect is
    imported meanwhile.
    """
    server = FlowServer(session.request.project.cache / "prefect")
    with interruptible(), stopped_by_interrupt(session.processes.stop):
        try:
            server.open()
            session.progress.open()
            session.begin([Step(Stage.NORMALIZE, model.name) for model in session.request.models])
            from flows.pipeline import run_flow

            server.wait_until_ready()
            with watched(server):
                run_flow(session)
        finally:
            session.progress.close()
            session.processes.stop()
            server.close()
