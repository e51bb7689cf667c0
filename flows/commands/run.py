"""`recipe run`: models x devices through all six stages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.arguments import Bindings, HardwareList, Quantization, Quiet, parse_bindings
from flows.project.context import options
from flows.terminal.terminal import Terminal


def run(
    context: typer.Context,
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL ...",
            help="An .onnx file, package.module:function, or a name that `recipe models list` "
            "prints.",
        ),
    ],
    hardware: HardwareList,
    bind: Bindings = None,
    quantization: Quantization = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder for packages and reports.")
    ] = Path("out"),
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help="Stages that may run side by side; else one a core."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Take models through all six stages for one or more devices."""
    from flows.project.requests import make_request

    request = make_request(
        models, hardware, parse_bindings(bind), quantization, out, jobs, options(context)
    )
    from flows.chain_run import run_request

    terminal = Terminal(quiet or options(context).terminal.quiet)
    raise typer.Exit(int(run_request(request, terminal)))
