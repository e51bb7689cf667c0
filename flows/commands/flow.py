"""`recipe flow ...`: what a team runs on every commit, every night, and before every merge."""

from __future__ import annotations

import typer

from flows.commands import commit, merge_gate, nightly

flow_app = typer.Typer(
    help="Many models on many devices: commits of model repositories, nights, merges.",
    no_args_is_help=True,
)
flow_app.command("commit")(commit.commit)
flow_app.command("nightly")(nightly.nightly)
flow_app.command("merge-gate")(merge_gate.merge_gate)
