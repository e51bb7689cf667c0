"""Numbers in words: the main figure of a stage, and the summary of a pair."""

from __future__ import annotations

from stages.report.facts import PairFacts


def summary_lines(facts: PairFacts) -> list[str]:
    """Latency, memory, fallbacks with their reasons, and where the files lie."""
    return [f"package and reports: {facts.folder}"]


def nanoseconds(value: int) -> str:
    """A time with three digits and its unit."""
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if value >= size:
            return (
                f"{value / size:.3g} {unit}"
                if value < 1000 * size
                else f"{value / size:.0f} {unit}"
            )
    return f"{value} ns"


def size(value_bytes: int) -> str:
    """A size in the largest binary unit that leaves at least one."""
    for unit, size_bytes in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value_bytes >= size_bytes:
            return f"{value_bytes / size_bytes:.1f} {unit}"
    return f"{value_bytes} B"
