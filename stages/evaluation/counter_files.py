"""The tables of counters that the benchmark stage writes: one row a group, one row an operator."""

from __future__ import annotations

from collections.abc import Iterable

from stages.device.counters import ENGINES, GroupCounters, OperatorCounters
from stages.device.stalls import STALLS
from stages.evaluation.report_files import table_text

GROUP_COLUMNS = (
    "group",
    "extent_ns",
    *(f"{engine}_ns" for engine in ENGINES),
    *(f"stalled_{stall.word}_ns" for stall in STALLS),
    "macs",
    "macs_over_peak",
    "ddr_read_bytes",
    "ddr_written_bytes",
    "bandwidth_over_peak",
    "cache_hit_bytes",
    "cache_miss_bytes",
)
OPERATOR_COLUMNS = ("operator", "kind", "group", "engine", "busy_ns", "macs", "macs_over_peak")


def groups_text(groups: Iterable[GroupCounters]) -> str:
    """groups.csv; cache columns are empty where the device has no cache."""
    return table_text(GROUP_COLUMNS, (_group_row(group) for group in groups))


def _group_row(group: GroupCounters) -> tuple[object, ...]:
    return (
        group.group,
        group.extent_ns,
        *(group.busy_ns.get(engine, 0) for engine in ENGINES),
        *(group.stalled_ns.get(stall.word, 0) for stall in STALLS),
        group.macs,
        group.macs_over_peak,
        group.ddr_read_bytes,
        group.ddr_written_bytes,
        group.bandwidth_over_peak,
        "" if group.cache_hit_bytes is None else group.cache_hit_bytes,
        "" if group.cache_miss_bytes is None else group.cache_miss_bytes,
    )


def operators_text(operators: Iterable[OperatorCounters]) -> str:
    """operators.csv."""
    rows = (
        (
            row.operator,
            row.kind,
            row.group,
            row.engine,
            row.busy_ns,
            row.macs,
            row.macs_over_peak,
        )
        for row in operators
    )
    return table_text(OPERATOR_COLUMNS, rows)
