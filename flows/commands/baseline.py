"""`recipe baseline accept`: what later gates compare with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.arguments import HardwareList
from flows.project.context import options

baseline_app = typer.Typer(help="Accepted results that gates compare with.", no_args_is_help=True)


@baseline_app.command("accept")
def accept(
    context: typer.Context,
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL ...", help="Models that `recipe run` ran.")
    ],
    hardware: HardwareList,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder that `recipe run` wrote.")
    ] = Path("out"),
) -> None:
    """Accept the benchmarks under OUT as the new baselines."""
    from flows.project.models import model_name
    from flows.project.places import PairPlaces
    from stages.gate import accept_baseline

    project = options(context).project
    for word in models:
        for device in hardware:
            places = PairPlaces(out, model_name(word), Path(device).stem)
            target = project.baseline(places.hardware, places.model)
            accept_baseline(places.benchmark, places.validation, target)
            options(context).terminal.say(f"accepted {places.model} on {places.hardware}: {target}")
