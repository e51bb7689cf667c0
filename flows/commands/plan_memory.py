"""`recipe plan-memory`: the memory planner alone, on a table of buffers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.project.context import options
from stages.errors import DoesNotFitError, InputError, UndecidedError

if TYPE_CHECKING:
    from stages.memory_planner.problem import Problem


def plan_memory(
    context: typer.Context,
    table: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.csv",
            help="Buffers: the columns id, lower, upper and size (half-open lifetimes, bytes), "
            "and perhaps alignment and offset.",
        ),
    ],
    capacity: Annotated[
        int, typer.Option("--capacity", metavar="BYTES", min=0, help="What the buffers share.")
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The table to write, with offsets.")
    ],
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Bounds the search; else a million.")
    ] = None,
) -> None:
    """Find offsets for buffers within a capacity, or prove that there are none."""
    from flows.project.files import write_beside
    from flows.project.places import require_writable
    from stages.memory_planner.csv_door import print_solution
    from stages.memory_planner.solution import GaveUp, Infeasible
    from stages.memory_planner.solver import DEFAULT_STEPS, solve
    from stages.memory_planner.validator import faults

    problem = _read(table, capacity)
    if out.is_dir():
        raise InputError("a folder lies there", where=str(out), hint="give `--out` a file")
    require_writable(out.parent)
    answer = solve(problem, steps or DEFAULT_STEPS)
    if isinstance(answer, Infeasible):
        hint = "raise `--capacity`, or shorten or shrink one of these buffers"
        raise DoesNotFitError(answer.reason, where=str(table), hint=hint)
    if isinstance(answer, GaveUp):
        raise UndecidedError(
            f"no answer within {answer.steps} steps",
            where=str(table),
            hint="raise `--steps`, or `--capacity`",
        )
    found = faults(problem, answer)
    assert not found, found
    write_beside(out, print_solution(problem, answer).encode())
    options(context).terminal.say(
        f"{len(problem.buffers)} buffers in {answer.peak_bytes(problem)} of {capacity} B, "
        f"{answer.fragmentation(problem):.3f} of the most bytes live at once, "
        f"{answer.steps} steps: {out}"
    )


def _read(table: Path, capacity_bytes: int) -> Problem:
    from stages.memory_planner.csv_door import parse_problem

    try:
        text = table.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it isn't UTF-8 text"
        raise InputError(
            f"the table can't be read: {reason}",
            where=str(table),
            hint="give a CSV file with the columns id,lower,upper,size",
        ) from error
    return parse_problem(text, capacity_bytes, str(table))
