"""`recipe hardware list | check`, `recipe models list`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.context import options

hardware_app = typer.Typer(help="Devices that recipes can be made for.", no_args_is_help=True)
models_app = typer.Typer(help="Models known by name.", no_args_is_help=True)


@hardware_app.command("list")
def list_hardware(context: typer.Context) -> None:
    """List the devices in hardware_specs/."""
    from flows.tables import hardware_table
    from stages.hardware.load import load_spec

    folder = options(context).project.hardware_specs
    specs = [load_spec(path) for path in sorted(folder.glob("*.yaml"))]
    options(context).terminal.show(hardware_table(specs))


@hardware_app.command("check")
def check_hardware(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A hardware spec, YAML.")],
) -> None:
    """Check a hardware spec; say where it is wrong."""
    from stages.hardware.load import load_spec

    spec = load_spec(file)
    options(context).terminal.say(f"{spec.name} {spec.version} ({spec.chip}): the spec is sound")


@models_app.command("list")
def list_models(context: typer.Context) -> None:
    """List the models in models/registry.yaml."""
    from flows.models import registry_rows
    from flows.tables import models_table

    options(context).terminal.show(models_table(registry_rows(options(context).project)))
