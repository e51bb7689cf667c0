"""The tables of performance counters: the run, its engines, its groups and operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from flows.terminal.text_table import make_table, plain_cells
from stages.units import format_bytes, format_ns

if TYPE_CHECKING:
    from rich.table import Table

    from stages.device.counters import Counters, RunCounters
    from stages.device.operator_counters import OperatorCounters

_SHOWN_OPERATORS = 20


def counter_tables(counters: Counters) -> Iterator[Table]:
    """The engines, then the groups in program order, then the dearest operators."""
    yield _engines(counters)
    yield _groups(counters)
    yield _operators(counters)


def run_line(run: RunCounters) -> str:
    """The whole run in a line."""
    parts = [
        f"{format_ns(run.total_ns)} without jitter: computing {_percent(run.compute_share)}",
        f"moving {_percent(run.dma_share)}",
        f"on the host {_percent(run.host_share)}",
        f"{_percent(run.macs_over_peak)} of peak arithmetic",
        f"{_percent(run.bandwidth_over_peak)} of peak bandwidth",
    ]
    if run.cache_miss_rate is not None:
        parts.append(f"{_percent(run.cache_miss_rate)} of cached bytes missed")
    return ", ".join(parts)


def _engines(counters: Counters) -> Table:
    total = counters.run.total_ns
    table = make_table("", "engine", "busy", "stalled", "idle", "stalled on")
    for name, time in counters.engines.items():
        stalled = sum(time.stalled_ns.values())
        table.add_row(
            *plain_cells(
                name,
                _share(time.busy_ns, total),
                _share(stalled, total),
                _share(time.idle_ns, total),
                _stalls(time.stalled_ns, total),
            )
        )
    return table


def _groups(counters: Counters) -> Table:
    columns = ("group", "extent", "tensor core", "vector", "dma", "host")
    table = make_table("", *columns, "ddr", "of peak MACs", "of peak bandwidth", "stalled on")
    for group in counters.groups:
        stalled = sum(group.stalled_ns.values())
        table.add_row(
            *plain_cells(
                group.group,
                format_ns(group.extent_ns),
                *(format_ns(spent) if spent else "" for spent in group.busy_ns.values()),
                format_bytes(group.ddr_read_bytes + group.ddr_written_bytes),
                _percent(group.macs_over_peak) if group.macs else "",
                _percent(group.bandwidth_over_peak),
                _stalls(group.stalled_ns, stalled),
            )
        )
    return table


def _operators(counters: Counters) -> Table:
    columns = ("operator", "kind", "engine", "busy", "of all work", "moving", "ddr", "missed")
    table = make_table("", *columns, "of MACs", "of bandwidth", "most stalled on")
    spent = max(1, sum(row.busy_ns for row in counters.operators))
    dearest = sorted(counters.operators, key=_dearness)[:_SHOWN_OPERATORS]
    for row in dearest:
        table.add_row(
            *plain_cells(
                row.operator,
                row.kind,
                row.engine,
                format_ns(row.busy_ns),
                _percent(row.busy_ns / spent),
                format_ns(row.transfer_ns) if row.transfer_ns else "",
                format_bytes(row.ddr_read_bytes + row.ddr_written_bytes),
                "" if row.cache_miss_rate is None else _percent(row.cache_miss_rate),
                _percent(row.macs_over_peak) if row.macs else "",
                _percent(row.bandwidth_over_peak) if row.transfer_ns else "",
                _stalls(row.stalled_ns, sum(row.stalled_ns.values())).split(", ")[0],
            )
        )
    return table


def _dearness(row: OperatorCounters) -> int:
    return -max(row.busy_ns, row.transfer_ns)


def _stalls(stalled: Mapping[str, int], whole: int) -> str:
    """Causes, the longest first; those below 0.05 % of the whole are left out."""
    ordered = sorted(stalled.items(), key=lambda item: -item[1])
    said = ((cause, _share(spent, whole)) for cause, spent in ordered)
    return ", ".join(f"{cause} {share}" for cause, share in said if share != "0.0 %")


def _share(part: int, whole: int) -> str:
    return _percent(part / whole if whole else 0.0)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
