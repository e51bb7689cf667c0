"""`recipe run`: models x devices through all six stages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.arguments import Bindings, HardwareList, Jobs, Quantization, Quiet, parse_bindings
from flows.project.context import options


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
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Take models through all six stages for one or more devices."""
    from flows.project.requests import make_request

    request = make_request(
        models, hardware, parse_bindings(bind), quantization, out, jobs, options(context)
    )
    from flows.chain_run import run_request

    terminal = options(context).terminal_with(quiet)
    raise typer.Exit(int(run_request(request, terminal)))
