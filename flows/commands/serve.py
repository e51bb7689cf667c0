"""`recipe serve`: the flows as deployments on the user's own Prefect server."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.arguments import Jobs
from flows.project.context import options


def serve(
    context: typer.Context,
    cron: Annotated[
        str | None,
        typer.Option("--cron", help="When the night begins; else `nightly.cron` of params.yaml."),
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option("--timezone", help="Of all schedules; else `nightly.timezone`."),
    ] = None,
    base: Annotated[
        str, typer.Option("--base", help="What the merge gate compares with unless it is told.")
    ] = "main",
    jobs: Jobs = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Flow runs side by side.")] = 2,
) -> None:
    """Serve commit, nightly and merge-gate on your Prefect server, until it is told to end."""
    from flows import serving

    project, terminal = options(context).project, options(context).terminal
    address = serving.server_address()
    chosen = serving.ServeOptions(cron, timezone, base, jobs, limit)
    deployments = serving.make_deployments(project, chosen)
    for name in serving.pause_others(project, deployments):
        terminal.say(f"paused {name}: the project doesn't name it any more")
    for name in serving.catch_up(deployments):
        terminal.say(f"{name} catches up")
    terminal.say(f"serving on {address}; Ctrl-C ends this, and keeps the schedules")
    for served in deployments:
        terminal.say(f"  {served.name}: {served.when}")
    serving.serve_deployments(deployments, limit)
