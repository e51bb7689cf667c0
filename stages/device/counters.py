"""Performance counters of one run without weather: of the run, its engines, groups and operators.

Times are worked out from the segments of `stalls.py` by turning their ends into nanoseconds, so
that busy, stalled and idle time of an engine add up to the run exactly, in nanoseconds too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.device.stalls import NOBODY, STALLS, Cause, Segments, attribute, by_queue
from stages.device.work import Work, operator_cycles, work_of
from stages.hardware.cost import NANOSECONDS_PER_SECOND, compulsory_cycles, peak_cycles
from stages.hardware.spec import HardwareSpec
from stages.plan.costs import Costs, engine_of
from stages.plan.instructions import Plan
from stages.tensors import DType

ENGINES = ("tensor_core", "vector", "dma", "host")
Times = NDArray[np.int64]


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
    `ddr` and the chip (with a cache between them, what the cache missed). Cache bytes are whole
    lines, None where the device has no cache.
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


@dataclass(frozen=True, slots=True)
class OperatorCounters:
    """One operator: the work of its instructions on an engine.

    A tensor-core instruction's time is its contraction's: what else it holds drains beside it. A
    vector or host instruction's time is shared as the cost model adds it up. `macs_over_peak` is
    over `busy_ns`.
    """

    operator: str
    kind: str
    group: str
    engine: str
    busy_ns: int
    macs: int
    macs_over_peak: float


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
    clock = _Clock(spec.clock_hz, segments)
    work = work_of(plan, costs, spec)
    return Counters(
        run=_run(spec, segments, clock, work),
        engines={
            name: _engine(segments, clock.lengths, numbers) for name, numbers in by_queue(segments)
        },
        groups=_groups(plan, spec, segments, clock, work),
        operators=_operators(plan, spec, segments, clock),
    )


class _Clock:
    """Segments in nanoseconds: ends rounded up, so lengths add up whatever the clock."""

    def __init__(self, clock_hz: int, segments: Segments) -> None:
        self.starts = nanoseconds(segments.start, clock_hz)
        self.ends = nanoseconds(segments.end, clock_hz)
        self.lengths = self.ends - self.starts
        self.total_ns = int(nanoseconds(np.array([segments.total_cycles]), clock_hz)[0])


def nanoseconds(cycles: Times, clock_hz: int) -> Times:
    """Cycles (int64) as nanoseconds, rounded up; exact for every run shorter than centuries."""
    seconds, rest = np.divmod(cycles, clock_hz)
    parts: Times = seconds * NANOSECONDS_PER_SECOND - (-rest * NANOSECONDS_PER_SECOND // clock_hz)
    return parts


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


def _run(spec: HardwareSpec, segments: Segments, clock: _Clock, work: Work) -> RunCounters:
    classes = _classes(segments)
    works = segments.cause == Cause.WORK

    def share(*engines: int) -> float:
        chosen = works & np.isin(classes, engines)
        covered = covered_ns(clock.starts[chosen], clock.ends[chosen])
        return round(covered / max(1, clock.total_ns), 4)

    macs = work.macs_of(None)
    moved = int(work.ddr_read.sum()), int(work.ddr_written.sum())
    hits, misses = work.cache_bytes(None)
    return RunCounters(
        total_ns=clock.total_ns,
        dma_share=share(ENGINES.index("dma")),
        compute_share=share(ENGINES.index("tensor_core"), ENGINES.index("vector")),
        host_share=share(ENGINES.index("host")),
        macs=sum(macs.values()),
        macs_over_peak=_over_peak(peak_cycles(spec.tensor_core, macs), segments.total_cycles),
        ddr_read_bytes=moved[0],
        ddr_written_bytes=moved[1],
        bandwidth_over_peak=_over_peak(
            compulsory_cycles(spec, sum(moved) if misses is None else misses),
            segments.total_cycles,
        ),
        cache_hit_bytes=hits,
        cache_miss_bytes=misses,
    )


def _classes(segments: Segments) -> Times:
    """The engine class of each segment's queue."""
    numbers = [ENGINES.index(engine_of(name)) for name in segments.queue_names]
    return np.array(numbers, dtype=np.int64)[segments.queue]


def covered_ns(starts: Times, ends: Times) -> int:
    """Length of the union of half-open intervals (int64[n] each)."""
    if not starts.size:
        return 0
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reached = np.concatenate((starts[:1], np.maximum.accumulate(ends)[:-1]))
    return int(np.maximum(ends - np.maximum(starts, reached), 0).sum())


def _over_peak(least_cycles: int, cycles: int) -> float:
    return round(least_cycles / cycles, 4) if cycles else 0.0


def _groups(
    plan: Plan, spec: HardwareSpec, segments: Segments, clock: _Clock, work: Work
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
        macs_over_peak=_over_peak(peak_cycles(spec.tensor_core, macs), cycles),
        ddr_read_bytes=moved[0],
        ddr_written_bytes=moved[1],
        bandwidth_over_peak=_over_peak(
            compulsory_cycles(spec, sum(moved) if misses is None else misses), cycles
        ),
        cache_hit_bytes=hits,
        cache_miss_bytes=misses,
    )


def _operators(
    plan: Plan, spec: HardwareSpec, segments: Segments, clock: _Clock
) -> tuple[OperatorCounters, ...]:
    """Operators in order of their first instruction."""
    worked = np.flatnonzero((segments.cause == Cause.WORK) & (segments.instruction != NOBODY))
    spent = np.zeros(len(plan.instructions), dtype=np.int64)
    np.add.at(spent, segments.instruction[worked], clock.lengths[worked])
    shares: dict[tuple[int, str], Sequence[tuple[str, str, int]]] = {}
    busy: dict[tuple[str, str, str, str], int] = {}
    macs: dict[tuple[str, str, str, str], dict[DType, int]] = {}
    for row, nanos in zip(plan.instructions, spent.tolist(), strict=True):
        if row.kernel == NOBODY:
            continue
        form = (row.kernel, row.queue)
        if form not in shares:
            shares[form] = operator_cycles(plan.kernels[row.kernel], row, spec)
        left, weight = nanos, sum(item[2] for item in shares[form])
        for operator, kind, cycles in shares[form]:
            key = (operator, kind, row.group, row.queue)
            part = left * cycles // max(1, weight)
            left, weight = left - part, weight - cycles
            busy[key] = busy.get(key, 0) + part
            if row.contraction is not None and cycles:
                own = macs.setdefault(key, {})
                dtype = row.contraction.dtype
                own[dtype] = own.get(dtype, 0) + row.contraction.macs
    return tuple(
        OperatorCounters(*key, nanos, sum(own.values()), _rate(spec, own, nanos))
        for key, nanos in busy.items()
        for own in (macs.get(key, {}),)
    )


def _rate(spec: HardwareSpec, macs: Mapping[DType, int], busy_ns: int) -> float:
    least = peak_cycles(spec.tensor_core, macs)
    return round(least * NANOSECONDS_PER_SECOND / (busy_ns * spec.clock_hz), 4) if busy_ns else 0.0
