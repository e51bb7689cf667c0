"""`recipe hardware list | check`, `recipe models list`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.project.context import options

hardware_app = typer.Typer(help="Devices that recipes can be made for.", no_args_is_help=True)
models_app = typer.Typer(help="Models known by name.", no_args_is_help=True)


@hardware_app.command("list")
def list_hardware(context: typer.Context) -> None:
    """List the devices in hardware_specs/."""
    from flows.terminal.catalogue_tables import hardware_table
    from stages.hardware.load import load_spec, spec_files
    from stages.hardware.summary import list_row

    folder = options(context).project.hardware_specs
    rows = [list_row(load_spec(path)) for path in spec_files(folder)]
    options(context).terminal.show(hardware_table(rows))


@hardware_app.command("check")
def check_hardware(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A hardware spec, YAML.")],
) -> None:
    """Check a hardware spec; say where it is wrong."""
    from stages.hardware.load import load_spec
    from stages.hardware.overlay import base_name
    from stages.hardware.summary import summarise

    summary = summarise(load_spec(file), base_name(file))
    terminal = options(context).terminal
    terminal.result(f"{summary.row.name}: the spec is sound")
    for fact in summary.facts:
        terminal.result(f"  {fact.name:<14} {fact.value}")
    for caution in summary.warnings:
        terminal.result(f"warning: {caution}")


@models_app.command("list")
def list_models(context: typer.Context) -> None:
    """List the models in models/."""
    from flows.terminal.catalogue_tables import models_table
    from stages.normalizer.registry import load_registry

    registry = load_registry(options(context).project.registry)
    options(context).terminal.show(models_table(list(registry.entries.values())))
