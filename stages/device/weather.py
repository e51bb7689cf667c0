"""Seeded jitter: what makes the runs of one plan differ.

Every cause of a spec makes stalls in each run, from a counter-based generator (Philox) keyed by
(seed, cause, run): the weather doesn't depend on the plan, so two recipes measured with one seed
meet the same stalls at the same instants, and equal runs are equal to the bit. All arithmetic is
on integers, with one table of quantiles, so no machine's logarithm matters.

DRAM refresh is periodic with a random phase, and stalls transfers. The other causes are Poisson
processes with exponential stalls: interrupts and other threads (host and submission), voltage droop
and clock steps (compute), other masters of the memory (transfers). How hard they hit varies
from run to run by an exponential factor of mean 1, held between a quarter and four, because what
causes them outlasts a run: a background task, a neighbour's load on the supply. Without it their
sums would average out over long runs, and measured tails don't (published P99 over mean is 1.01
to 1.28 for inferences of 1 to 100 ms).

A run's phase or factor, and its first stall's time and length, are spread evenly over the
runs of a session (`strata.py`): P99 then depends less on the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from stages.device.strata import DIMENSIONS, Strata
from stages.hardware.cost import nanoseconds_to_cycles
from stages.hardware.spec import HardwareSpec, Jitter, JitterCause
from stages.plan.costs import Role
from stages.plan.weathered import StallTable, Weather

CAUSES = tuple(JitterCause)
TOUCHED = {
    JitterCause.DRAM_REFRESH: Role.TRANSFER,
    JitterCause.MEMORY_CONTENTION: Role.TRANSFER,
    JitterCause.VOLTAGE_DROOP: Role.COMPUTE,
    JitterCause.CLOCK_STEP: Role.COMPUTE,
    JitterCause.INTERRUPT: Role.HOST,
    JitterCause.SCHEDULER: Role.HOST,
}
"""The instructions that each cause stalls; the driver's submission is the host's."""
_STREAMS = {
    JitterCause.DRAM_REFRESH: 1,
    JitterCause.INTERRUPT: 2,
    JitterCause.VOLTAGE_DROOP: 3,
    JitterCause.SCHEDULER: 4,
    JitterCause.CLOCK_STEP: 5,
    JitterCause.MEMORY_CONTENTION: 6,
}
_FRACTION_BITS = 20
_UNIT = 1 << _FRACTION_BITS
_QUANTILE_BITS = 12
_QUANTILES = np.array(
    [
        round(-log((index + 0.5) / (1 << _QUANTILE_BITS)) * _UNIT)
        for index in range(1 << _QUANTILE_BITS)
    ],
    dtype=np.int64,
)
"""Quantiles of the unit exponential distribution in fixed point."""
_LEAST_FACTOR, _MOST_FACTOR = _UNIT // 4, 4 * _UNIT
_LEAST_SLOT_BITS = 6
_MOST_SLOTS = 1 << 12
_WINDOW_INTERVALS = 1 << 13
"""A Poisson process is drawn over this many of its intervals, rounded up to a power of two of
cycles, and then repeats: by then its own sums have long averaged out."""


@dataclass(frozen=True, slots=True)
class Climate:
    """The weather of one device and one seed; `at` gives that of some runs up to a time."""

    spec: HardwareSpec
    seed: int

    def at(
        self, runs: Sequence[int], horizon_cycles: int, causes: Collection[JitterCause] = CAUSES
    ) -> Weather:
        """Stalls of these run numbers, of these causes, before `horizon_cycles`.

        A longer horizon adds later stalls and changes none.
        """
        wanted = [jitter for jitter in self.spec.jitter if jitter.cause in causes]
        shift = min([_slot_shift(horizon_cycles), *(self._window_bits(item) for item in wanted)])
        slots = (horizon_cycles >> shift) + 1
        sums: dict[Role, NDArray[np.int64]] = {}
        for jitter in wanted:
            stalls = self._refresh if jitter.cause is JitterCause.DRAM_REFRESH else self._poisson
            strata = Strata(self.seed, _STREAMS[jitter.cause])
            cumulative = sums.setdefault(
                TOUCHED[jitter.cause], np.zeros((len(runs), slots + 1), dtype=np.int64)
            )
            for row, run in enumerate(runs):
                cumulative[row] += stalls(jitter, strata, run, shift, slots)
        tables = {role: StallTable(table, shift) for role, table in sums.items()}
        return Weather(
            runs=len(runs),
            transfer=tables.get(Role.TRANSFER),
            compute=tables.get(Role.COMPUTE),
            host=tables.get(Role.HOST),
        )

    def _interval(self, jitter: Jitter) -> int:
        return max(1, nanoseconds_to_cycles(self.spec, jitter.interval_ns))

    def _window_bits(self, jitter: Jitter) -> int:
        return (self._interval(jitter) * _WINDOW_INTERVALS - 1).bit_length()

    def _refresh(
        self, jitter: Jitter, strata: Strata, run: int, shift: int, slots: int
    ) -> NDArray[np.int64]:
        """Stall cycles before each slot boundary: one at `phase`, then one every interval."""
        interval = self._interval(jitter)
        own = _source(self.seed, _STREAMS[jitter.cause], run)(DIMENSIONS)
        phase = int(strata.words(run, own)[0]) * interval >> 64
        boundaries = np.arange(slots + 1, dtype=np.int64) << shift
        begun: NDArray[np.int64] = np.maximum(boundaries - phase + interval - 1, 0) // interval
        return begun * nanoseconds_to_cycles(self.spec, jitter.stall_ns)

    def _poisson(
        self, jitter: Jitter, strata: Strata, run: int, shift: int, slots: int
    ) -> NDArray[np.int64]:
        """Stall cycles before each slot boundary: exponential ones after exponential gaps."""
        stall = nanoseconds_to_cycles(self.spec, jitter.stall_ns)
        draw = _source(self.seed, _STREAMS[jitter.cause], run)
        words = strata.words(run, draw(DIMENSIONS))
        factor = min(max(int(_exponential(words[:1], _UNIT)[0]), _LEAST_FACTOR), _MOST_FACTOR)
        window = 1 << self._window_bits(jitter)
        drawn = min(window, slots << shift)
        gaps, lengths = _process(
            words[1:], draw, self._interval(jitter), stall * factor >> _FRACTION_BITS, drawn
        )
        times = np.cumsum(gaps)
        before = times < drawn
        width = drawn >> shift
        counted = np.bincount(times[before] >> shift, weights=lengths[before], minlength=width)
        one_window = counted.astype(np.int64)  # sums of integers below 2**53: exact
        increments = np.tile(one_window, -(-slots // width))[:slots]
        return np.concatenate(([0], np.cumsum(increments)))


def _process(
    first: NDArray[np.uint64],
    draw: Callable[[int], NDArray[np.uint64]],
    interval: int,
    stall: int,
    horizon: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Gaps between stalls and their lengths, in pairs of draws, until they pass `horizon`; the
    first pair is given."""
    gaps = [_exponential(first[:1], interval) + 1]
    lengths = [_exponential(first[1:], stall)]
    reached = int(gaps[0][0])
    while reached < horizon:
        expected = (horizon - reached) // interval
        count = expected + expected // 8 + 8
        pairs = draw(2 * count).reshape(count, 2)
        gaps.append(_exponential(pairs[:, 0], interval) + 1)
        lengths.append(_exponential(pairs[:, 1], stall))
        reached += int(gaps[-1].sum())
    return np.concatenate(gaps), np.concatenate(lengths)


def _source(seed: int, stream: int, run: int) -> Callable[[int], NDArray[np.uint64]]:
    """Draws 64-bit words; numpy promises the stream of a bit generator, not that of its methods."""
    key = np.array([(seed << 8 | stream) % 2**64, run], dtype=np.uint64)
    words = np.random.Philox(key=key)

    def draw(count: int) -> NDArray[np.uint64]:
        return np.asarray(words.random_raw(count), dtype=np.uint64)

    return draw


def _exponential(words: NDArray[np.uint64], mean: int) -> NDArray[np.int64]:
    """Exponential variates of an integer mean from the words' top bits."""
    quantiles = _QUANTILES[(words >> np.uint64(64 - _QUANTILE_BITS)).astype(np.int64)]
    scaled: NDArray[np.int64] = quantiles * mean >> _FRACTION_BITS
    return scaled


def _slot_shift(horizon_cycles: int) -> int:
    shift = _LEAST_SLOT_BITS
    while horizon_cycles >> shift > _MOST_SLOTS:
        shift += 1
    return shift
