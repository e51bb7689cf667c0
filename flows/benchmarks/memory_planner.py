"""The memory planner on MiniMalloc's eleven instances: CPU seconds, peak, and what first fit needs.

`python -m flows.benchmarks.memory_planner` measures and writes its section of docs/benchmarks.md;
`make bench` does. Each instance is one `recipe plan-memory`, Python's start and imports included.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flows.benchmarks.command_cost import run_recipe
from flows.benchmarks.sections import replace_section, table
from flows.project.places import find_project
from stages.memory_planner.csv_door import parse_problem
from stages.memory_planner.greedy import by_size, first_fit
from stages.memory_planner.problem import Problem, max_live_bytes
from stages.memory_planner.solution import Solution
from stages.memory_planner.solver import solve
from stages.memory_planner.validator import faults

CAPACITY_BYTES = 1_048_576
MINIMALLOC_CPU_SECONDS = {
    "A": 8.3,
    "B": 6.9,
    "C": 1.3,
    "D": 5.0,
    "E": 5.7,
    "F": 9.5,
    "G": 2.0,
    "H": 3.2,
    "I": 6.1,
    "J": 1.8,
    "K": 1.2,
}
"""Of MiniMalloc's own C++ solver, measured on a machine of this kind."""
TITLE = "The memory planner"
_REPEATS = 5


@dataclass(frozen=True, slots=True)
class Planned:
    """One instance; `peak_bytes` is None where the search gave up."""

    name: str
    buffers: int
    max_live_bytes: int
    peak_bytes: int | None
    greedy_bytes: int
    steps: int
    cpu_seconds: float


def measure(path: Path, repeats: int) -> Planned:
    """Solve an instance here for its figures, and by the command for its cost."""
    problem = parse_problem(path.read_text(encoding="utf-8"), CAPACITY_BYTES, str(path))
    answer = solve(problem)
    solved = isinstance(answer, Solution) and not faults(problem, answer)
    peak = answer.peak_bytes(problem) if isinstance(answer, Solution) and solved else None
    return Planned(
        name=path.name.partition(".")[0],
        buffers=len(problem.buffers),
        max_live_bytes=max_live_bytes(problem.buffers),
        peak_bytes=peak,
        greedy_bytes=_greedy_bytes(problem),
        steps=answer.steps,
        cpu_seconds=statistics.median(_command_seconds(path) for _ in range(repeats)),
    )


def _greedy_bytes(problem: Problem) -> int:
    return first_fit(problem.buffers, by_size).peak_bytes(problem)


def _command_seconds(path: Path) -> float:
    """CPU seconds of one `recipe plan-memory`."""
    with tempfile.TemporaryDirectory() as folder:
        there = ("--capacity", str(CAPACITY_BYTES), "--out", Path(folder) / "offsets.csv")
        return run_recipe("plan-memory", path, *there).cpu_seconds


def lines(rows: Sequence[Planned]) -> list[str]:
    """The section of docs/benchmarks.md."""
    head = (
        "instance", "buffers", "most live over capacity", "first fit by size", "peak over capacity",
        "steps", "CPU s", "MiniMalloc's C++, CPU s",
    )  # fmt: skip
    body = [
        (
            row.name,
            f"{row.buffers}",
            f"{row.max_live_bytes / CAPACITY_BYTES:.3f}",
            f"{row.greedy_bytes / CAPACITY_BYTES:.2f}",
            "gave up" if row.peak_bytes is None else f"{row.peak_bytes / CAPACITY_BYTES:.3f}",
            f"{row.steps:,}",
            f"{row.cpu_seconds:.2f}",
            f"{MINIMALLOC_CPU_SECONDS.get(row.name, float('nan')):.1f}",
        )
        for row in rows
    ]
    return [
        f"`recipe plan-memory` on MiniMalloc's instances in {CAPACITY_BYTES:,} bytes: one process,",
        f"Python's start and imports included, medians of {_REPEATS} runs on a machine with",
        f"{os.cpu_count()} cores. MiniMalloc's own solver was timed once, by hand, on a machine of",
        "this kind. [How it works](memory.md).",
        "",
        *table(head, body),
        "",
        f"Together {sum(row.cpu_seconds for row in rows):.1f} CPU seconds; C++ takes "
        f"{sum(MINIMALLOC_CPU_SECONDS.values()):.1f}.",
    ]


def main() -> None:
    """Measures and writes the section."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.benchmarks.memory_planner", description=__doc__
    )
    parser.add_argument("--repeats", type=int, default=_REPEATS)
    chosen = parser.parse_args()
    root = find_project().root
    rows = []
    for path in sorted((root / "measurements" / "minimalloc").glob("*.csv")):
        rows.append(measure(path, chosen.repeats))
        print(rows[-1], flush=True)
    target = root / "docs" / "benchmarks.md"
    replace_section(target, TITLE, lines(rows))
    print(f"written to {target}")


if __name__ == "__main__":
    main()
