"""Which share of a memory's channels and banks a strided access keeps busy.

Addresses go round the channels of a memory every `interleave_bytes`, and round its banks every
`bank_interleave_bytes`. An access in long unbroken runs meets all of them equally; one that jumps
by a stride may meet a few again and again, and gets only those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import islice, product

from stages.hardware.spec import Memory
from stages.units import ceil_div

_ROUNDS = 16
_EVEN = Fraction(1)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Unbroken runs of `run_bytes`, and the loops that place them: (extent, stride in bytes),
    from the innermost out."""

    run_bytes: int
    loops: tuple[tuple[int, int], ...] = ()


WHOLE = Pattern(0)
"""One unbroken run, however long."""


def pattern_of(
    physical_shape: tuple[int, ...], strides: tuple[int, ...], item_bytes: int
) -> Pattern:
    """The pattern of a strided box. A run goes on over every axis that the one inside it fills."""
    run = item_bytes
    loops: list[tuple[int, int]] = []
    for extent, stride in zip(reversed(physical_shape), reversed(strides), strict=True):
        if extent == 1:
            continue
        if not loops and stride == run:
            run *= extent
        else:
            loops.append((extent, stride))
    return Pattern(run, tuple(loops))


def conflict_factor(memory: Memory, pattern: Pattern) -> Fraction:
    """How many times longer an access takes than if it met all channels and banks alike.

    It is the busiest one's bursts over those it would have at best; the larger of channels and
    banks counts. Judged over the first runs, as many as could go round all of them 16 times,
    from an aligned address: a memory controller sees no further ahead.
    """
    if not pattern.loops or not pattern.run_bytes:
        return _EVEN
    return _judged(memory, pattern)


@lru_cache(maxsize=4096)
def _judged(memory: Memory, pattern: Pattern) -> Fraction:
    channels = _busiest(memory.channels, memory.interleave_bytes, memory.burst_bytes, pattern)
    banks = _busiest(memory.banks, memory.bank_interleave_bytes, memory.burst_bytes, pattern)
    return max(channels, banks)


def _busiest(units: int, interleave_bytes: int, burst_bytes: int, pattern: Pattern) -> Fraction:
    """The busiest unit's bursts over the most that any must have."""
    if units == 1 or not interleave_bytes:
        return Fraction(1)
    loads = [0] * units
    rounds, rest = divmod(pattern.run_bytes, units * interleave_bytes)
    runs = 0
    for start in islice(_starts(pattern, _ROUNDS * units), _ROUNDS * units):
        runs += 1
        address = start // burst_bytes * burst_bytes
        stop = address + rest
        while address < stop:
            following = min((address // interleave_bytes + 1) * interleave_bytes, stop)
            bursts = ceil_div(following - address, burst_bytes)
            loads[address // interleave_bytes % units] += bursts
            address = following
    whole = runs * rounds * (interleave_bytes // burst_bytes)
    return Fraction(max(loads) + whole, ceil_div(sum(loads), units) + whole)


def _starts(pattern: Pattern, most: int) -> Iterator[int]:
    """Where the runs begin, in the order of the loops; more than `most` need not come."""
    ranges = [range(min(extent, most)) for extent, _ in reversed(pattern.loops)]
    strides = [stride for _, stride in reversed(pattern.loops)]
    for places in product(*ranges):
        yield sum(place * stride for place, stride in zip(places, strides, strict=True))
