"""Performance counters of one run without weather: of the run, its engines, groups and operators.

Times are worked out from the segments of `stalls.py` by turning their ends into nanoseconds, so
that busy, stalled and idle time of an engine add up to the run exactly, in nanoseconds too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.device.operator_counters import OperatorCounters, operator_counters
from stages.device.segment_times import (
    SegmentTimes,
    Times,
    covered,
    miss_rate,
    nanoseconds,
    over_peak,
)
from stages.device.stalls import NOBODY, STALLS, Cause, Segments, attribute, by_queue
from stages.device.work import Work, work_of
from stages.hardware.cost import compulsory_cycles, peak_cycles
from stages.hardware.spec import HardwareSpec
from stages.plan.costs import Costs, engine_of
from stages.plan.instructions import Plan

ENGINES = ("tensor_core", "vector", "dma", "host")


@dataclass(frozen=True, slots=True)
class EngineTime:
    """Where the time of one queue went; the three add up to the run's length.

    `busy_ns` it worked. `stalled_ns` it had work and couldn't: by cause, followed by the engine
    that it waited for where there is one. `idle_ns` it had no work left, or none at all.
    """

    busy_ns: int
    stalled_ns: Mapping[str, int]
    idle_ns: int


@dataclass(frozen=True, slots=True)
class RunCounters:
    """One run: how long, what shares of it somebody moved (DMA), computed (tensor core or vector
    unit) or the host worked, and what was achieved of the peaks.

    `macs_over_peak` is of the tensor core's rate, `bandwidth_over_peak` of what can cross between
    `ddr` and the chip (with a cache between them, lines fetched and changed ones put out). Cache
    bytes are whole lines; they and the missed share are None where the device has no cache.
    """

    total_ns: int
    dma_share: float
    compute_share: float
    host_share: float
    macs: int
    macs_over_peak: float
    ddr_read_bytes: int
    ddr_written_bytes: int
    bandwidth_over_peak: float
    cache_hit_bytes: int | None
    cache_miss_bytes: int | None
    cache_miss_rate: float | None


@dataclass(frozen=True, slots=True)
class GroupCounters:
    """One group of the recipe: `extent_ns` from its first work's start to its last's end (groups
    overlap), work of each engine class, stalls of its instructions by cause.

    What it achieved of the peaks is over its extent.
    """

    group: str
    extent_ns: int
    busy_ns: Mapping[str, int]
    stalled_ns: Mapping[str, int]
    macs: int
    macs_over_peak: float
    ddr_read_bytes: int
    ddr_written_bytes: int
    bandwidth_over_peak: float
    cache_hit_bytes: int | None
    cache_miss_bytes: int | None
    cache_miss_rate: float | None


@dataclass(frozen=True, slots=True)
class Counters:
    """Everything counted in one run."""

    run: RunCounters
    engines: Mapping[str, EngineTime]
    groups: tuple[GroupCounters, ...]
    operators: tuple[OperatorCounters, ...]


def count(plan: Plan, costs: Costs, spec: HardwareSpec) -> Counters:
    """The counters of a priced plan's run at the nominal clock."""
    segments = attribute(costs)
    clock = SegmentTimes(spec.clock_hz, segments)
    work = work_of(plan, costs, spec)
    return Counters(
        run=_run(spec, segments, clock, work),
        engines={
            name: _engine(segments, clock.lengths, numbers) for name, numbers in by_queue(segments)
        },
        groups=_groups(plan, spec, segments, clock, work),
        operators=operator_counters(plan, spec, segments, clock, work),
    )


def _engine(segments: Segments, lengths: Times, numbers: Times) -> EngineTime:
    busy = idle = 0
    stalled: dict[str, int] = {}
    for cause, source in _kinds(segments, numbers):
        mine = numbers[(segments.cause[numbers] == cause) & (segments.source[numbers] == source)]
        spent = int(lengths[mine].sum())
        if cause is Cause.WORK:
            busy += spent
        elif cause is Cause.IDLE:
            idle += spent
        else:
            name = "" if source == NOBODY else f" {segments.queue_names[source]}"
            stalled[f"{cause.word}{name}"] = spent
    return EngineTime(busy, stalled, idle)


def _kinds(segments: Segments, numbers: Times) -> list[tuple[Cause, int]]:
    """Each pair of cause and source that occurs, in order."""
    pairs = np.stack((segments.cause[numbers], segments.source[numbers]), axis=1)
    return [(Cause(cause), source) for cause, source in np.unique(pairs, axis=0).tolist()]


def _run(spec: HardwareSpec, segments: Segments, clock: SegmentTimes, work: Work) -> RunCounters:
    classes = _classes(segments)
    works = segments.cause == Cause.WORK

    def share(*engines: int) -> float:
        chosen = works & np.isin(classes, engines)
        moving_ns = covered(clock.starts[chosen], clock.ends[chosen])
        return round(moving_ns / max(1, clock.total_ns), 4)

    macs = work.macs_of(None)
    moved = int(work.ddr_read.sum()), int(work.ddr_written.sum())
    hits, misses = work.cache_bytes(None)
    return RunCounters(
        total_ns=clock.total_ns,
        dma_share=share(ENGINES.index("dma")),
        compute_share=share(ENGINES.index("tensor_core"), ENGINES.index("vector")),
        host_share=share(ENGINES.index("host")),
        macs=sum(macs.values()),
        macs_over_peak=over_peak(peak_cycles(spec.tensor_core, macs), segments.total_cycles),
        ddr_read_bytes=moved[0],
        ddr_written_bytes=moved[1],
        bandwidth_over_peak=over_peak(
            compulsory_cycles(spec, int(work.crossed.sum())), segments.total_cycles
        ),
        cache_hit_bytes=hits,
        cache_miss_bytes=misses,
        cache_miss_rate=miss_rate(hits, misses),
    )


def _classes(segments: Segments) -> Times:
    """The engine class of each segment's queue."""
    numbers = [ENGINES.index(engine_of(name)) for name in segments.queue_names]
    return np.array(numbers, dtype=np.int64)[segments.queue]


def _groups(
    plan: Plan, spec: HardwareSpec, segments: Segments, clock: SegmentTimes, work: Work
) -> tuple[GroupCounters, ...]:
    names = tuple(dict.fromkeys(row.group for row in plan.instructions if row.group))
    places = {name: place for place, name in enumerate(names)}
    of_instruction = np.array(
        [places.get(row.group, NOBODY) for row in plan.instructions], dtype=np.int64
    )
    owned = np.flatnonzero(segments.instruction != NOBODY)
    owner = of_instruction[segments.instruction[owned]]
    owned, owner = owned[owner != NOBODY], owner[owner != NOBODY]
    cause, classes = segments.cause[owned], _classes(segments)[owned]
    lengths = clock.lengths[owned]

    def tally(chosen: NDArray[np.bool_]) -> Times:
        spent = np.bincount(owner[chosen], weights=lengths[chosen], minlength=len(names))
        return spent.astype(np.int64)  # sums of integers below 2**53: exact

    works = cause == Cause.WORK
    busy = {name: tally(works & (classes == place)) for place, name in enumerate(ENGINES)}
    stalled = {stall.word: tally(cause == stall) for stall in STALLS}
    begins, ends = _extents(segments, owned[works], owner[works], len(names))
    return tuple(
        _group(
            spec,
            name,
            (int(begins[place]), int(ends[place])),
            {word: int(spent[place]) for word, spent in busy.items()},
            {word: int(spent[place]) for word, spent in stalled.items() if spent[place]},
            work,
            np.flatnonzero(of_instruction == place),
        )
        for place, name in enumerate(names)
    )


def _extents(segments: Segments, owned: Times, owner: Times, groups: int) -> tuple[Times, Times]:
    """Cycles from the first start to the last end of each group's work."""
    begins = np.full(groups, np.iinfo(np.int64).max)
    ends = np.zeros(groups, dtype=np.int64)
    np.minimum.at(begins, owner, segments.start[owned])
    np.maximum.at(ends, owner, segments.end[owned])
    return np.minimum(begins, ends), ends


def _group(
    spec: HardwareSpec,
    name: str,
    extent: tuple[int, int],
    busy: dict[str, int],
    stalled: dict[str, int],
    work: Work,
    rows: Times,
) -> GroupCounters:
    begin_ns, end_ns = nanoseconds(np.array(extent), spec.clock_hz).tolist()
    cycles = extent[1] - extent[0]
    macs = work.macs_of(rows)
    moved = int(work.ddr_read[rows].sum()), int(work.ddr_written[rows].sum())
    hits, misses = work.cache_bytes(rows)
    return GroupCounters(
        group=name,
        extent_ns=end_ns - begin_ns,
        busy_ns=busy,
        stalled_ns=stalled,
        macs=sum(macs.values()),
        macs_over_peak=over_peak(peak_cycles(spec.tensor_core, macs), cycles),
        ddr_read_bytes=moved[0],
        ddr_written_bytes=moved[1],
        bandwidth_over_peak=over_peak(
            compulsory_cycles(spec, int(work.crossed[rows].sum())), cycles
        ),
        cache_hit_bytes=hits,
        cache_miss_bytes=misses,
        cache_miss_rate=miss_rate(hits, misses),
    )
