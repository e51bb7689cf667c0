"""`python -m flows.benchmarks.compiler`: how near recipes come to the hardware's limit.

Simulated figures, the same on every machine; writes its section of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from flows.benchmarks.compiler_quality import HARDWARE, MODELS, Quality, load, quality
from flows.benchmarks.sections import replace_section, table
from flows.project.places import find_project
from stages.hardware.cost import cycles_to_nanoseconds
from stages.hardware.load import load_spec
from stages.units import format_ns

TITLE = "How near recipes come to the limit"


def lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """The section."""
    head = (
        "model", "hardware", "latency", "over limit", "bound by", "over roofline", "DRAM moved",
        "SRAM over bound", "groups", "on the host",
    )  # fmt: skip
    return [
        "int8, simulated without jitter. The *device limit* is the larger of each engine's work at",
        "its best tiles, nothing ever waiting, and the compulsory bytes (each weight, input and",
        "output once) over the bandwidth; launches and submission added. The plain roofline has",
        "multiply-accumulates at the array's peak. DRAM moved is over the compulsory bytes; SRAM",
        "over bound is the peak over the most that is live at once.",
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
        str(found.groups),
        str(found.fallbacks),
    ]


def main() -> None:
    """Compiles, simulates and writes the section."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.benchmarks.compiler", description=__doc__
    )
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--hardware", nargs="+", default=HARDWARE)
    chosen = parser.parse_args()
    project = find_project()
    page = project.root / "docs" / "benchmarks.md"
    rows: list[list[str]] = []
    for hardware in chosen.hardware:
        spec = load_spec(project.root / "hardware_specs" / f"{hardware}.yaml")
        for model in chosen.models:
            found, _ = quality(model, *load(model), spec)
            rows.append(row(found, cycles_to_nanoseconds(spec, found.cycles)))
            print(*rows[-1], sep="  ", flush=True)
            replace_section(page, TITLE, lines(rows))


if __name__ == "__main__":
    main()
