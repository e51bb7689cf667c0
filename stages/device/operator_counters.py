"""Counters of each operator: its work, its transfers and what it stood still for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from stages.device.ownership import Form, Owner, ownership
from stages.device.segment_times import SegmentTimes, Times, covered, miss_rate, over_peak
from stages.device.stalls import NOBODY, STALLS, Cause, Segments
from stages.device.work import Work
from stages.hardware.cost import compulsory_cycles, peak_cycles
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import Plan
from stages.tensors import DType


@dataclass(frozen=True, slots=True)
class OperatorCounters:
    """One operator on an engine, and the transfers that bring what it reads and take away what it
    makes (`ownership.py` says whose a transfer is).

    `extent_ns` lasts from the first start of its work or transfers to their last end; `busy_ns` is
    its work, `transfer_ns` the time in which some channel moved bytes for it, and the two shares
    are of the extent. `stalled_ns`, by cause, is of its instructions and transfers, which may
    stand still at once. A tensor-core instruction's time is its contraction's: what else it holds
    drains beside it. A vector or host instruction's time is shared as the cost model adds it up.
    `macs_over_peak` is over `busy_ns`, `bandwidth_over_peak` over `transfer_ns`: rows that a gather
    picks out of `ddr` by itself don't count there. What is moved for no operator has its group's
    name, the kind `transfer` and the engine `dma`.
    """

    operator: str
    kind: str
    group: str
    engine: str
    extent_ns: int
    busy_ns: int
    transfer_ns: int
    compute_share: float
    dma_share: float
    stalled_ns: Mapping[str, int]
    macs: int
    macs_over_peak: float
    ddr_read_bytes: int
    ddr_written_bytes: int
    bandwidth_over_peak: float
    cache_hit_bytes: int | None
    cache_miss_bytes: int | None
    cache_miss_rate: float | None


@dataclass(slots=True)
class _Tally:
    """What is added up for one operator."""

    begin_ns: int | None = None
    end_ns: int = 0
    busy_ns: int = 0
    busy_cycles: int = 0
    transfer_ns: int = 0
    transfer_cycles: int = 0
    stalled_ns: dict[str, int] = field(default_factory=dict)
    macs: dict[DType, int] = field(default_factory=dict)
    read: int = 0
    written: int = 0
    crossed: int = 0
    hits: int = 0
    misses: int = 0

    def worked(self, begin_ns: int, end_ns: int) -> None:
        """Its extent reaches over this."""
        self.begin_ns = begin_ns if self.begin_ns is None else min(begin_ns, self.begin_ns)
        self.end_ns = max(end_ns, self.end_ns)


def operator_counters(
    plan: Plan, spec: HardwareSpec, segments: Segments, times: SegmentTimes, work: Work
) -> tuple[OperatorCounters, ...]:
    """Operators in the order of their first instruction."""
    owned = ownership(plan, spec)
    tallies = {owner: _Tally() for form in owned.forms for owner, _ in form.shares}
    chosen = np.flatnonzero(segments.instruction != NOBODY)
    forms = owned.of_instruction[segments.instruction[chosen]]
    chosen, forms = chosen[forms != NOBODY], forms[forms != NOBODY]
    _add_times(tallies, owned.forms, segments, times, chosen, forms)
    _add_stalls(tallies, owned.forms, segments.cause[chosen], times.lengths[chosen], forms)
    _add_work(tallies, owned.forms, owned.of_instruction, work)
    cached = work.hits is not None
    return tuple(_counted(owner, tally, spec, cached) for owner, tally in tallies.items())


def _add_times(
    tallies: Mapping[Owner, _Tally],
    forms: tuple[Form, ...],
    segments: Segments,
    times: SegmentTimes,
    chosen: Times,
    form_of: Times,
) -> None:
    works = segments.cause[chosen] == Cause.WORK
    chosen, form_of = chosen[works], form_of[works]
    order = np.argsort(form_of, kind="stable")
    chosen, form_of = chosen[order], form_of[order]
    cuts = np.searchsorted(form_of, np.arange(len(forms) + 1))
    for number, form in enumerate(forms):
        mine = chosen[cuts[number] : cuts[number + 1]]
        if not mine.size:
            continue
        starts, ends = times.starts[mine], times.ends[mine]
        for owner, _ in form.shares:
            tallies[owner].worked(int(starts.min()), int(ends.max()))
        if form.moves:
            tally = tallies[form.shares[0][0]]
            tally.transfer_ns += covered(starts, ends)
            tally.transfer_cycles += covered(segments.start[mine], segments.end[mine])
            continue
        for owner, part in form.split(int(times.lengths[mine].sum())):
            tallies[owner].busy_ns += part
        for owner, part in form.split(int(segments.cycles[mine].sum())):
            tallies[owner].busy_cycles += part


def _add_stalls(
    tallies: Mapping[Owner, _Tally],
    forms: tuple[Form, ...],
    causes: Times,
    lengths: Times,
    form_of: Times,
) -> None:
    width = len(Cause)
    spent = np.bincount(
        form_of * width + causes, weights=lengths, minlength=len(forms) * width
    ).astype(np.int64)  # sums of integers below 2**53: exact
    for number, form in enumerate(forms):
        for stall in STALLS:
            for owner, part in form.split(int(spent[number * width + stall])):
                if part:
                    stalled = tallies[owner].stalled_ns
                    stalled[stall.word] = stalled.get(stall.word, 0) + part


def _add_work(
    tallies: Mapping[Owner, _Tally], forms: tuple[Form, ...], form_of: Times, work: Work
) -> None:
    """Bytes go to a form's first owner: the operator that picks rows of a table."""
    for row, contraction in enumerate(work.contractions):
        if contraction is None or form_of[row] == NOBODY:
            continue
        for owner, weight in forms[form_of[row]].shares:
            if weight:
                macs = tallies[owner].macs
                macs[contraction.dtype] = macs.get(contraction.dtype, 0) + contraction.macs
    rows = np.flatnonzero(form_of != NOBODY)
    columns = [work.ddr_read, work.ddr_written, work.crossed]
    if work.hits is not None and work.misses is not None:
        columns += [work.hits, work.misses]
    sums = np.zeros((len(forms), 5), dtype=np.int64)
    for place, column in enumerate(columns):
        np.add.at(sums[:, place], form_of[rows], column[rows])
    for form, (read, written, crossed, hits, misses) in zip(forms, sums.tolist(), strict=True):
        tally = tallies[form.shares[0][0]]
        tally.read += read
        tally.written += written
        tally.crossed += crossed if form.moves else 0
        tally.hits += hits
        tally.misses += misses


def _counted(owner: Owner, tally: _Tally, spec: HardwareSpec, cached: bool) -> OperatorCounters:
    extent = tally.end_ns - (tally.begin_ns or 0)
    hits, misses = (tally.hits, tally.misses) if cached else (None, None)
    least_moving = compulsory_cycles(spec, tally.crossed)
    return OperatorCounters(
        operator=owner.operator,
        kind=owner.kind,
        group=owner.group,
        engine=owner.engine,
        extent_ns=extent,
        busy_ns=tally.busy_ns,
        transfer_ns=tally.transfer_ns,
        compute_share=_share(tally.busy_ns, extent),
        dma_share=_share(tally.transfer_ns, extent),
        stalled_ns=tally.stalled_ns,
        macs=sum(tally.macs.values()),
        macs_over_peak=over_peak(peak_cycles(spec.tensor_core, tally.macs), tally.busy_cycles),
        ddr_read_bytes=tally.read,
        ddr_written_bytes=tally.written,
        bandwidth_over_peak=over_peak(least_moving, tally.transfer_cycles),
        cache_hit_bytes=hits,
        cache_miss_bytes=misses,
        cache_miss_rate=miss_rate(hits, misses),
    )


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0
