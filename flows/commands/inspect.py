"""`recipe show` and `recipe export`: what is in a package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.arguments import PackageFolder
from flows.project.context import options

if TYPE_CHECKING:
    from stages.hardware.spec import HardwareSpec
    from stages.package import Package


def show(
    context: typer.Context,
    package: PackageFolder,
    plan: Annotated[bool, typer.Option("--plan", help="The plan, instruction by instruction.")] = (
        False
    ),
    memory: Annotated[bool, typer.Option("--memory", help="The memory map.")] = False,
    counters: Annotated[
        bool, typer.Option("--counters", help="Where the time goes: engines, groups, operators.")
    ] = False,
    why: Annotated[
        str | None,
        typer.Option(
            "--why",
            metavar="OPERATOR",
            help="What was weighed for an operator (or a group, or the maker of a value).",
        ),
    ] = None,
) -> None:
    """Print a package's recipe, or its plan, memory map, performance counters and reasons."""
    from stages.package import read_package

    content = read_package(package)
    terminal = options(context).terminal
    if plan:
        from stages.plan.text import print_plan

        terminal.result(print_plan(content.plan))
    if memory:
        from stages.plan.memory_map import print_memory_map

        terminal.result(print_memory_map(content.plan, _spec_of(context, content)))
    if counters:
        from flows.terminal.counter_tables import counter_tables, run_line
        from stages.device.simulated import SimulatedDevice

        device = SimulatedDevice(_spec_of(context, content))
        device.load(content, package)
        counted = device.counters()
        terminal.result(run_line(counted.run))
        for table in counter_tables(counted):
            terminal.show(table)
    if why is not None:
        _explain(context, package, content, why)
    if not plan and not memory and not counters and why is None:
        from stages.recipe.text import print_recipe

        terminal.result(print_recipe(content.recipe))


def _explain(context: typer.Context, package: Path, content: Package, name: str) -> None:
    """What was weighed for an operator, a table for each question."""
    from flows.terminal.why_tables import named, why_lines, why_table
    from stages.errors import InputError, RecipeError
    from stages.package import read_weighed
    from stages.recipe.explanation import group_of, nearest_names, reasons_of

    terminal = options(context).terminal
    group = group_of(content.recipe, name)
    if group is None:
        near = nearest_names(content.recipe, name)
        raise InputError(
            f"the recipe has no operator, group or value {name!r}",
            where=str(package),
            hint=f"the nearest names: {named(near)}"
            if near
            else f"`recipe show {package}` prints all names",
        )
    try:
        spec = _spec_of(context, content)
    except RecipeError:
        spec = None  # only the clock is asked of it
    terminal.result(f"group {group.name} on {group.engine}: {named(group.operators)}")
    reasons = reasons_of(content.recipe, read_weighed(package), name)
    for item in reasons:
        terminal.result("\n".join(why_lines(item)))
        if item.alternatives:
            terminal.show(why_table(item, spec))
    if not reasons:
        terminal.result("nothing was weighed for it: there was one way")


def _spec_of(context: typer.Context, content: Package) -> HardwareSpec:
    """The spec of the device that the package was made for."""
    from flows.project.places import hardware_path
    from stages.hardware.load import load_spec

    return load_spec(hardware_path(content.plan.hardware, options(context).project))


def export(
    context: typer.Context,
    package: PackageFolder,
    onnx: Annotated[Path, typer.Option("--onnx", metavar="FILE", help="The ONNX file to write.")],
) -> None:
    """Write a recipe as a standard ONNX file, each fused group a function."""
    from flows.project.files import write_beside
    from flows.project.places import require_writable
    from stages.package import read_constants, read_package
    from stages.recipe.onnx_export import export_recipe

    content = read_package(package)
    require_writable(onnx.parent)
    model = export_recipe(content.recipe, read_constants(package))
    write_beside(onnx, model.SerializeToString(deterministic=True))
    options(context).terminal.say(f"written to {onnx}")
