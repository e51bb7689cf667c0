"""`recipe show` and `recipe export`: what is in a package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.arguments import PackageFolder
from flows.project.context import options


def show(
    context: typer.Context,
    package: PackageFolder,
    plan: Annotated[bool, typer.Option("--plan", help="The plan, instruction by instruction.")] = (
        False
    ),
    memory: Annotated[bool, typer.Option("--memory", help="The memory map.")] = False,
) -> None:
    """Print a package's recipe, or its plan and memory map."""
    from stages.package import read_package

    content = read_package(package)
    terminal = options(context).terminal
    if plan:
        from stages.plan.text import print_plan

        terminal.result(print_plan(content.plan))
    if memory:
        from flows.project.places import hardware_path
        from stages.hardware.load import load_spec
        from stages.plan.memory_map import print_memory_map

        spec = load_spec(hardware_path(content.plan.hardware, options(context).project))
        terminal.result(print_memory_map(content.plan, spec))
    if not plan and not memory:
        from stages.recipe.text import print_recipe

        terminal.result(print_recipe(content.recipe))


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
