"""`recipe normalize | compile | validate | benchmark | gate | stress`: one stage, on files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.arguments import (
    Bindings,
    Cascades,
    Hardware,
    OutFolder,
    PackageFolder,
    Quantization,
    parse_bindings,
)
from flows.project.context import options
from stages.compiler.interleaving import Interleaving
from stages.compiler.lora import Lora
from stages.errors import Outcome

if TYPE_CHECKING:
    from flows.steps.stage_calls import StageResult

Baseline = Annotated[
    Path | None, typer.Option("--baseline", metavar="FILE", help="The accepted facts of the pair.")
]
Runs = Annotated[int | None, typer.Option("--runs", min=1, help="Timed runs; else params.yaml's.")]
ExitZero = Annotated[
    bool,
    typer.Option("--exit-zero", help="Exit 0 whatever the verdict: it is in the report."),
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Else params.yaml's.")]


def normalize(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="An .onnx file, package.module:function, or a registry name."
        ),
    ],
    out: OutFolder,
    bind: Bindings = None,
    samples: Annotated[
        Path | None, typer.Option("--samples", metavar="FILE", help="Sample inputs, an .npz.")
    ] = None,
) -> None:
    """Make a model static, clean and opset 17; prove that it computes the same."""
    from flows.project.models import request_model
    from flows.project.places import require_writable
    from flows.steps import stage_calls

    bindings = parse_bindings(bind)
    request = request_model(model, options(context).project, samples)
    require_writable(out.parent)
    _finish(context, stage_calls.normalize(request, out, bindings, options(context).params), out)


def compile_(
    context: typer.Context,
    normalized: Annotated[
        Path, typer.Argument(metavar="NORMALIZED", help="A folder that `recipe normalize` wrote.")
    ],
    hardware: Hardware,
    out: OutFolder,
    quantization: Quantization = None,
    cascades: Cascades = Interleaving.CASCADES,
    merge_lora: Annotated[
        bool, typer.Option("--merge-lora", help="Merge low-rank branches into their weights.")
    ] = False,
    reuse: Annotated[
        Path | None,
        typer.Option(
            "--reuse", metavar="PACKAGE", help="Where only weights changed, decide as it did."
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Neither look for kept decisions nor keep any.")
    ] = False,
    stop_after: Annotated[
        str | None,
        typer.Option("--stop-after", metavar="PASS", help="Write the recipe so far, as text."),
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option(
            "--start-from", metavar="FILE", help="Go on from such a text, edited perhaps."
        ),
    ] = None,
) -> None:
    """Compile a normalised model to a recipe package for one device."""
    # Before numpy comes: threads that wait for each other burn more CPU than these products take.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # And huge pages for arrays that live as short as these: to find them room, the kernel moves
    # others, where memory is in pieces for longer than it takes to fill small pages.
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
    from flows.steps import stage_calls

    spec = _spec(context, hardware, out)
    lora = Lora.MERGE if merge_lora else Lora.KEEP
    if stop_after is not None:
        from stages.compile import compile_until

        compile_until(
            normalized,
            spec,
            out,
            quantization=quantization,
            stop_after=stop_after,
            start_from=start_from,
            interleaving=cascades,
            lora=lora,
        )
        options(context).terminal.say(f"stopped after {stop_after}, written to {out}")
        return
    store = None if fresh else options(context).project.decisions
    choices = stage_calls.CompileChoices(reuse, store, start_from, cascades, lora)
    result = stage_calls.compile_package(normalized, spec, out, quantization, choices)
    _finish(context, result, out)


def validate(
    context: typer.Context,
    package: PackageFolder,
    normalized: Annotated[
        Path,
        typer.Option("--normalized", metavar="DIR", help="A folder that `recipe normalize` wrote."),
    ],
    hardware: Hardware,
    out: OutFolder,
    exit_zero: ExitZero = False,
) -> None:
    """Check a package: plan rules, accuracy, memory, fallbacks."""
    from flows.steps import stage_calls

    spec = _spec(context, hardware, out)
    params = options(context).params
    result = stage_calls.validate(package, normalized, spec, out, params)
    _finish(context, result, out, exit_zero)


def benchmark(
    context: typer.Context,
    package: PackageFolder,
    hardware: Hardware,
    out: OutFolder,
    runs: Runs = None,
    seed: Seed = None,
) -> None:
    """Time a package on the device."""
    from flows.steps import stage_calls

    spec = _spec(context, hardware, out)
    params = options(context).params.with_benchmark(runs, seed)
    _finish(context, stage_calls.benchmark(package, spec, out, params), out)


def gate(
    context: typer.Context,
    measured: Annotated[
        Path, typer.Argument(metavar="BENCHMARK", help="A folder that `recipe benchmark` wrote.")
    ],
    validated: Annotated[
        Path,
        typer.Option("--validation", metavar="DIR", help="A folder that `recipe validate` wrote."),
    ],
    out: OutFolder,
    baseline: Baseline = None,
    exit_zero: ExitZero = False,
) -> None:
    """Compare a package's latency and fusion with the accepted baseline."""
    from flows.project.places import require_writable
    from flows.steps import stage_calls

    require_writable(out.parent)
    params = options(context).params
    result = stage_calls.gate(measured, validated, baseline, out, params)
    _finish(context, result, out, exit_zero)


def stress(
    context: typer.Context,
    package: PackageFolder,
    hardware: Hardware,
    out: OutFolder,
    runs: Runs = None,
    seed: Seed = None,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", min=0.001, max=1440, help="A soak of so long, not of --runs."),
    ] = None,
    ambient: Annotated[
        float | None,
        typer.Option(
            "--ambient",
            metavar="CELSIUS",
            min=-60,
            max=200,
            help="In air of that temperature, from idle; else in a chamber (params.yaml).",
        ),
    ] = None,
    airflow: Annotated[
        float | None,
        typer.Option("--airflow", metavar="M_PER_S", min=0, max=100, help="How fast the air is."),
    ] = None,
    exit_zero: ExitZero = False,
) -> None:
    """Time a package on a device that is already hot, or that heats itself in warm air."""
    from flows.steps import stage_calls

    spec = _spec(context, hardware, out)
    params = options(context).params.with_stress(runs, seed, minutes, ambient, airflow)
    result = stage_calls.thermal_stress(package, spec, out, params)
    _finish(context, result, out, exit_zero)


def _spec(context: typer.Context, hardware: str, out: Path) -> Path:
    """The device's spec, where the stage can also write."""
    from flows.project.places import hardware_path, require_writable

    spec = hardware_path(hardware, options(context).project)
    require_writable(out.parent)
    return spec


def _finish(
    context: typer.Context, result: StageResult, out: Path, exit_zero: bool = False
) -> None:
    terminal = options(context).terminal
    terminal.say(f"{result.stage}  {result.verdict}  {result.figure}  {result.seconds:.1f} s")
    for remark in result.remarks:
        terminal.say(remark)
    terminal.say(f"written to {out}")
    raise typer.Exit(int(Outcome.PASSED if exit_zero else result.outcome))
