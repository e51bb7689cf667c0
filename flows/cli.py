"""The `recipe` command: its groups, and what every way to end means as an exit code."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Sequence

import typer

from flows.arguments import Quiet, spread_bindings
from flows.commands import (
    baseline,
    calibrate,
    catalogue,
    flow,
    inspect,
    plan_memory,
    run,
    serve,
    stage,
)
from flows.project.context import Options
from flows.running.interrupts import comes_of_interrupt, hear_again, must_not_wait
from flows.terminal.outcomes import exit_code_lines, report_bug, report_error
from flows.terminal.terminal import Terminal
from stages.errors import Outcome, RecipeError

_COLLECT_AFTER = (100_000, 50, 100)
"""Objects made until cycles are looked for: a command makes many that all live to its end, and by
Python's own settings (700, or 2,000 from 3.13 on) they are looked through again and again."""
_STAGES = "One stage, on files"
_LOOK = "Look"

app = typer.Typer(
    help="Compiles ONNX models to hardware recipes, checks them, and gates their latency.",
    epilog="\n".join(["Exit codes:", *exit_code_lines()]),
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(run.run)
app.command("normalize", rich_help_panel=_STAGES)(stage.normalize)
app.command("compile", rich_help_panel=_STAGES)(stage.compile_)
app.command("validate", rich_help_panel=_STAGES)(stage.validate)
app.command("benchmark", rich_help_panel=_STAGES)(stage.benchmark)
app.command("gate", rich_help_panel=_STAGES)(stage.gate)
app.command("stress", rich_help_panel=_STAGES)(stage.stress)
app.command("show", rich_help_panel=_LOOK)(inspect.show)
app.command("export", rich_help_panel=_LOOK)(inspect.export)
app.add_typer(catalogue.hardware_app, name="hardware", rich_help_panel=_LOOK)
app.add_typer(catalogue.models_app, name="models", rich_help_panel=_LOOK)
app.command("calibrate")(calibrate.calibrate)
app.add_typer(baseline.baseline_app, name="baseline")
app.add_typer(flow.flow_app, name="flow")
app.command("plan-memory")(plan_memory.plan_memory)
app.command("serve")(serve.serve)


@app.callback()
def _before(
    context: typer.Context,
    quiet: Quiet = False,
) -> None:
    context.obj = Options(Terminal(quiet))


def call(arguments: Sequence[str]) -> Outcome | int:
    """Runs one command; gives its exit code. Errors go to stderr."""
    try:
        app(spread_bindings(arguments), prog_name="recipe")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else Outcome.INTERNAL_ERROR
    except (KeyboardInterrupt, Exception) as error:
        return _meaning(error)
    return Outcome.PASSED


def _meaning(error: BaseException) -> Outcome:
    if comes_of_interrupt(error):
        return Outcome.INTERRUPTED
    if isinstance(error, RecipeError):
        return report_error(error)
    return report_bug(error)


def main() -> None:
    """The entry point of the `recipe` script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names may be beyond the locale's reach
    sys.unraisablehook = hear_again
    gc.set_threshold(*_COLLECT_AFTER)
    # Pydantic would read what every installed package says of itself, to find its plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    code = int(call(sys.argv[1:]))
    sys.stdout.flush()
    if code == Outcome.INTERRUPTED or must_not_wait():
        # Python ends itself by SIGINT where an extension's own code was interrupted, and waits for
        # threads; the exit code is promised, and what had to be tidied up is.
        os._exit(code)
    gc.freeze()  # what lives now goes with the process
    sys.exit(code)
