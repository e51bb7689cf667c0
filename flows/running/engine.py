"""What every flow runs in: a Prefect server, quiet settings, Ctrl-C, and no runs left for dead.

Used by the commands; a deployment runs in what its own worker set up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flows.project.places import Project
from flows.running.flow_server import FlowServer
from flows.running.interrupts import interruptible
from flows.running.server_watch import watched

_DRAIN_SECONDS = 5.0


@contextmanager
def flow_engine(project: Project) -> Iterator[None]:
    """Starts the server, or uses the user's; imports Prefect meanwhile; ends it afterwards.

    Raises:
        FlowServerError: our server doesn't start, or the server dies meanwhile.
        InputError: nothing answers where PREFECT_API_URL points.
    """
    server = FlowServer(project.cache / "prefect")
    with interruptible():
        try:
            server.open()
            import prefect

            from flows.running.dead_runs import own_tag, sweep_dead_runs

            server.wait_until_ready()
            with watched(server):
                sweep_dead_runs()
                with prefect.tags(own_tag()):
                    yield
                drain()
        finally:
            server.close()


def drain() -> None:
    """Sends what Prefect still holds: its server may end right after us."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (EventsWorker, APILogWorker):
        worker.drain_all(timeout=_DRAIN_SECONDS)
