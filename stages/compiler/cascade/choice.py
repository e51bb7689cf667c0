"""Which chains to cascade: cut points of the order of groups, chosen by dynamic programming.

A cascade is an interval of neighbouring groups, so a choice of cascades is a choice of cut points,
and the cheapest one up to a group is the cheapest over all intervals that end there: exact for the
prices that it is given. The stripe and the rows of the buffers are chosen for each interval from a
short list of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf

from stages.compiler.cascade.chains import Site, axes_of
from stages.compiler.cascade.prices import ChainPrices, Estimate
from stages.hardware.spec import HardwareSpec

LONGEST = 12
"""Groups in a chain, at most: more has not paid on any network that was tried."""
_LAPS = (1.0, 3.0, inf)
KEPT = 4
"""Stripes of an interval that are remembered: the cheapest, and what comes next."""
Options = tuple[Estimate, ...]
"""Ways to cut one interval in stripes, the cheapest first."""
Price = tuple[int, int]
"""Cycles, then bytes to and from the DDR: of equal cycles the fewer bytes win."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What a layer-by-layer solution leaves to cascades.

    `costs`: the price of each group by itself. `resident`: values that lie whole in the SRAM.
    `room_bytes(start, stop)`: the SRAM that residents other than `held` leave over an interval.
    """

    site: Site
    costs: Mapping[int, Price]
    resident: Mapping[str, tuple[int, int, int]]
    capacity_bytes: int

    def room_bytes(self, estimate: Estimate) -> int:
        """The SRAM that is left to a chain: all but the residents alive in it, held ones apart."""
        chain = estimate.chain
        taken = sum(
            size
            for value, (start, stop, size) in self.resident.items()
            if start < chain.stop and chain.start < stop and value not in chain.held
        )
        return self.capacity_bytes - taken


def choose(ground: Ground, spec: HardwareSpec) -> tuple[Options, ...]:
    """The cascades that make the groups cheapest, in execution order."""
    numbers = sorted(ground.site.works)
    if not numbers:
        return ()
    options = best_intervals(ground, spec)
    intervals = {
        interval: (found[0].cycles, found[0].ddr_bytes) for interval, found in options.items()
    }
    cuts = cheapest_cuts(ground.costs, intervals, numbers[-1] + 1)
    return tuple(options[interval] for interval in cuts)


def cheapest_cuts(
    costs: Mapping[int, Price], intervals: Mapping[tuple[int, int], Price], count: int
) -> list[tuple[int, int]]:
    """The cheapest partition of `[0, count)` into single groups (free where `costs` has none) and
    intervals, as the intervals that it takes; single groups are left out."""
    best: list[Price] = [(0, 0)]
    back: list[int] = [0]
    ending: dict[int, list[tuple[int, Price]]] = {}
    for (start, stop), price in intervals.items():
        ending.setdefault(stop, []).append((start, price))
    for stop in range(1, count + 1):
        alone = costs.get(stop - 1, (0, 0))
        found, origin = _plus(best[stop - 1], alone), stop - 1
        for start, price in sorted(ending.get(stop, ())):
            total = _plus(best[start], price)
            if total < found:
                found, origin = total, start
        best.append(found)
        back.append(origin)
    taken = []
    stop = count
    while stop:
        if stop - back[stop] > 1:
            taken.append((back[stop], stop))
        stop = back[stop]
    return taken[::-1]


def _plus(one: Price, other: Price) -> Price:
    return one[0] + other[0], one[1] + other[1]


def best_intervals(ground: Ground, spec: HardwareSpec) -> dict[tuple[int, int], Options]:
    """For each interval of groups that can be a cascade, its cheapest ones that fit the SRAM."""
    prices = ChainPrices(ground.site, spec, frozenset(ground.resident))
    found: dict[tuple[int, int], Options] = {}
    for last in sorted(ground.site.works):
        if not _may_pay(ground, last):
            continue
        for estimate in _estimates(prices, last):
            chain = estimate.chain
            if not _passes_through_ddr(ground, estimate):
                continue
            if estimate.sram_bytes > ground.room_bytes(estimate):
                continue
            interval = (chain.start, chain.stop)
            others = found.get(interval, ())
            if len(others) < KEPT or _rank(estimate) < _rank(others[-1]):
                found[interval] = tuple(sorted((*others, estimate), key=_rank)[:KEPT])
    return found


def _rank(estimate: Estimate) -> tuple[int, int, int]:
    return estimate.cycles, estimate.ddr_bytes, estimate.sram_bytes


def _may_pay(ground: Ground, last: int) -> bool:
    """Whether the group reads what one of the tiled groups before it has put into the DDR."""
    results = {
        ground.site.works[number].result
        for number in range(max(0, last - LONGEST), last)
        if number in ground.site.works
    }
    return any(
        value in results and value not in ground.resident
        for value in ground.site.works[last].operands
    )


def _passes_through_ddr(ground: Ground, estimate: Estimate) -> bool:
    return any(value not in ground.resident for value in estimate.chain.held)


def _estimates(prices: ChainPrices, last: int) -> Iterator[Estimate]:
    for axis in axes_of(prices.site, last):
        reached = False
        for stripe in _stripes(prices.group(last, axis).extent):
            for laps in _LAPS:
                for estimate in prices.estimates(last, axis, stripe, laps, LONGEST):
                    reached = True
                    yield estimate
        if reached:
            return


def _stripes(extent: int) -> list[int]:
    """Extents of a stripe: balanced parts, halved again and again."""
    found: dict[int, None] = {}
    parts = 2
    while parts < 2 * extent:
        found[-(-extent // parts)] = None
        parts *= 2
    return list(found)
