"""`python -m flows.benchmarks.compiler`: how near recipes come to the hardware's limit.

Simulated figures, the same on every machine; writes its section of docs/benchmarks.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from flows.benchmarks.choice import bench_parser, load_specs
from flows.benchmarks.compiler_quality import HARDWARE, MODELS, Quality, load, quality
from flows.benchmarks.compiler_steps import EACH, cycles
from flows.benchmarks.sections import replace_section, table
from flows.project.places import find_project
from stages.hardware.cost import cycles_to_nanoseconds
from stages.hardware.spec import HardwareSpec
from stages.units import format_ns

TITLE = "How near recipes come to the limit"
STEPS_TITLE = "What each step gains"


def lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """The section."""
    head = (
        "model", "hardware", "latency", "over limit", "bound by", "over roofline", "DRAM moved",
        "SRAM over bound", "over buffered limit", "groups", "on the host",
    )  # fmt: skip
    return [
        "int8, simulated without jitter. The *device limit* is the larger of each engine's work at",
        "its best tiles, nothing ever waiting, and the compulsory bytes (each weight, input and",
        "output once) over the bandwidth; launches and submission added. The plain roofline has",
        "multiply-accumulates at the array's peak. DRAM moved is over the compulsory bytes; SRAM",
        "over bound is the peak over the most that is live at once. The *buffered limit* has in",
        "it that weights come no earlier than the SRAM has room for them (`compiler/limit.py`).",
        "",
        *table(head, rows),
    ]


def row(found: Quality, nanoseconds: int) -> list[str]:
    """One recipe's cells."""
    return [
        found.model,
        found.hardware,
        format_ns(nanoseconds),
        f"{found.over_limit:.2f}",
        found.limit.bound,
        f"{found.over_roofline:.2f}",
        f"{found.moved_bytes / found.limit.compulsory_bytes:.2f}",
        f"{found.sram_peak_bytes / max(1, found.sram_bound_bytes):.2f}",
        f"{found.cycles / found.limit.buffered_cycles:.2f}",
        str(found.groups),
        str(found.fallbacks),
    ]


def step_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """The section of the steps."""
    return [
        "Latency over that of the same network as exported: unfused, row-major where an operator",
        "takes it so, no cascades, nothing side by side; each step alone, and all together.",
        "",
        *table(("model", "hardware", *EACH), rows),
    ]


def step_row(model: str, spec: HardwareSpec) -> list[str]:
    """One network with each step: as exported in time, then as shares of it."""
    graph, constants = load(model)
    found = {name: cycles(graph, constants, spec, steps) for name, steps in EACH.items()}
    base = found.pop("as exported")
    if base is None:
        return [model, spec.name, "no recipe", *("" for _ in found)]
    shares = [
        f"{value / base:.2f}" if value is not None else "no recipe" for value in found.values()
    ]
    return [model, spec.name, format_ns(cycles_to_nanoseconds(spec, base)), *shares]


def main() -> None:
    """Compiles, simulates and writes the section."""
    chosen = bench_parser("compiler", __doc__, MODELS, HARDWARE).parse_args()
    project = find_project()
    page = project.root / "docs" / "benchmarks.md"
    rows: list[list[str]] = []
    steps: list[list[str]] = []
    for spec in load_specs(chosen.hardware, project):
        for model in chosen.models:
            found = quality(model, *load(model), spec)
            rows.append(row(found, cycles_to_nanoseconds(spec, found.cycles)))
            print(*rows[-1], sep="  ", flush=True)
            replace_section(page, TITLE, lines(rows))
            steps.append(step_row(model, spec))
            print(*steps[-1], sep="  ", flush=True)
            replace_section(page, STEPS_TITLE, step_lines(steps))


if __name__ == "__main__":
    main()
