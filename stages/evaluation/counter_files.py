"""The tables of counters that the benchmark stage writes: one row a group, one row an operator."""

from __future__ import annotations

from collections.abc import Iterable

from stages.device.counters import ENGINES, GroupCounters
from stages.device.operator_counters import OperatorCounters
from stages.device.stalls import STALLS
from stages.evaluation.report_files import table_text

_ENDING = (
    *(f"stalled_{stall.word}_ns" for stall in STALLS),
    "macs",
    "macs_over_peak",
    "ddr_read_bytes",
    "ddr_written_bytes",
    "bandwidth_over_peak",
    "cache_hit_bytes",
    "cache_miss_bytes",
    "cache_miss_rate",
)
"""The columns at the end of either table: stalls, and what was achieved."""
GROUP_COLUMNS = (
    "group",
    "extent_ns",
    *(f"{engine}_ns" for engine in ENGINES),
    *_ENDING,
)
OPERATOR_COLUMNS = (
    "operator",
    "kind",
    "group",
    "engine",
    "extent_ns",
    "busy_ns",
    "transfer_ns",
    "compute_share",
    "dma_share",
    *_ENDING,
)


def groups_text(groups: Iterable[GroupCounters]) -> str:
    """groups.csv; cache columns are empty where the device has no cache."""
    return table_text(GROUP_COLUMNS, (_group_row(group) for group in groups))


def _group_row(group: GroupCounters) -> tuple[object, ...]:
    return (
        group.group,
        group.extent_ns,
        *(group.busy_ns.get(engine, 0) for engine in ENGINES),
        *_ending(group),
    )


def operators_text(operators: Iterable[OperatorCounters]) -> str:
    """operators.csv; cache columns are empty where the device has no cache."""
    return table_text(OPERATOR_COLUMNS, (_operator_row(row) for row in operators))


def _operator_row(row: OperatorCounters) -> tuple[object, ...]:
    return (
        row.operator,
        row.kind,
        row.group,
        row.engine,
        row.extent_ns,
        row.busy_ns,
        row.transfer_ns,
        row.compute_share,
        row.dma_share,
        *_ending(row),
    )


def _ending(row: GroupCounters | OperatorCounters) -> tuple[object, ...]:
    cached = (row.cache_hit_bytes, row.cache_miss_bytes, row.cache_miss_rate)
    return (
        *(row.stalled_ns.get(stall.word, 0) for stall in STALLS),
        row.macs,
        row.macs_over_peak,
        row.ddr_read_bytes,
        row.ddr_written_bytes,
        row.bandwidth_over_peak,
        *("" if value is None else value for value in cached),
    )
