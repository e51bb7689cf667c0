"""Which chains to cascade: cut points of the order of groups, chosen by dynamic programming.

A cascade is an interval of neighbouring groups, so a choice of cascades is a choice of cut points,
and the cheapest one up to a group is the cheapest over all intervals that end there: exact for the
prices that it is given. The stripe and the rows of the buffers are chosen for each interval from a
short list of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stages.compiler.cascade.chains import COLUMNS, Chain, Site, axes_of, chains_ending
from stages.compiler.cascade.estimates import Estimate, Price, Rank
from stages.compiler.cascade.walks import ChainPrices
from stages.compiler.tiling.streams import align

LONGEST = 8
"""Groups in a chain, at most: more has not paid on any network that was tried."""
_LAPS = (1, 2, 4, 6, 8, 12, None)
_IN_BLOCKS = (1, 2)
"""Blocks of channels have no halo: more room than for two rounds spares nothing."""
MOST_ROUNDS = 128
"""Rounds of a cascade, at most: each is instructions to issue, store and check."""
KEPT = 4
"""Stripes of an interval that are remembered: the cheapest, and what comes next."""
Options = tuple[Estimate, ...]
"""Ways to cut one interval in stripes, the cheapest first."""
Interval = tuple[int, int]
"""Groups `[start, stop)`."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What a layer-by-layer solution leaves to cascades.

    `cycles`, `costs`: of each group by itself. `resident`: values that lie whole in the SRAM, with
    the groups over which they live and their bytes.
    """

    site: Site
    cycles: Mapping[int, int]
    costs: Mapping[int, Price]
    resident: Mapping[str, tuple[int, int, int]]
    capacity_bytes: int

    def room_bytes(self, chain: Chain) -> int:
        """The SRAM that is left to a chain: all but the residents alive in it, held ones apart."""
        taken = sum(
            size
            for value, (start, stop, size) in self.resident.items()
            if start < chain.stop and chain.start < stop and value not in chain.held
        )
        return self.capacity_bytes - taken


def choose(ground: Ground, options: Mapping[Interval, Options]) -> tuple[Options, ...]:
    """The cascades that make the groups cheapest, of these options, in execution order."""
    _, cuts = _cheapest(ground, options)
    return tuple(options[interval] for interval in cuts)


def total_price(ground: Ground, options: Mapping[Interval, Options]) -> Price:
    """The price of all groups, in the cheapest cascades of these options."""
    price, _ = _cheapest(ground, options)
    return price


def _cheapest(ground: Ground, options: Mapping[Interval, Options]) -> tuple[Price, list[Interval]]:
    intervals = {interval: found[0].price for interval, found in options.items()}
    return cheapest_cuts(ground.costs, intervals, max(ground.site.works, default=-1) + 1)


def cheapest_cuts(
    costs: Mapping[int, Price], intervals: Mapping[Interval, Price], count: int
) -> tuple[Price, list[Interval]]:
    """The cheapest partition of `[0, count)` into single groups (free where `costs` has none) and
    intervals: its price, and the intervals that it takes."""
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
    return best[count], taken[::-1]


def _plus(one: Price, other: Price) -> Price:
    return one[0] + other[0], one[1] + other[1]


def best_intervals(
    ground: Ground, prices: ChainPrices, lasts: Iterable[int]
) -> dict[Interval, Options]:
    """For each interval of groups that can be a cascade and ends with one of `lasts`, the cheapest
    ways to cut it that fit the SRAM."""
    found: dict[Interval, Options] = {}
    worst: dict[Interval, Rank] = {}
    for last in lasts:
        if not may_pay(ground, last):
            continue
        for estimate in _estimates(ground, prices, last, worst):
            interval = estimate.interval
            kept = found[interval] = _among(found.get(interval, ()), estimate)
            if len(kept) == KEPT:
                worst[interval] = rank(kept[-1])
    return found


def _among(others: Options, estimate: Estimate) -> Options:
    """The cheapest of some ways to cut an interval and one more; of those that come to the same the
    cheaper estimate."""
    same = next((other for other in others if estimate.is_cut_as(other)), None)
    if same is not None and rank(same) <= rank(estimate):
        return others
    kept = [other for other in others if other is not same]
    return tuple(sorted((*kept, estimate), key=rank)[:KEPT])


def rank(estimate: Estimate) -> Rank:
    """The order of ways to cut one chain, the best first."""
    return *estimate.price, estimate.sram_bytes


def may_pay(ground: Ground, last: int) -> bool:
    """Whether the group reads what one of the tiled groups before it has put into the DDR, or what
    another engine has made."""
    works, resident = ground.site.works, ground.resident
    engines = {
        ground.site.passed(number): works[number].group.engine
        for number in range(max(0, last - LONGEST), last)
        if number in works
    }
    work = works[last]
    return any(
        value in engines and (value not in resident or engines[value] is not work.group.engine)
        for value in work.operands
    )


def _may_gain(ground: Ground, chain: Chain) -> bool:
    """Whether a chain keeps something off the DDR, or lets two engines work side by side."""
    if any(value not in ground.resident for value in chain.held):
        return True
    return len({work.group.engine for work in chain.works}) > 1


def _estimates(
    ground: Ground, prices: ChainPrices, last: int, worst: Mapping[Interval, Rank]
) -> Iterator[Estimate]:
    """Estimates of all that may gain, fits, and is better than the worst of what is kept."""
    found: list[int] = []
    for axis in axes_of(prices.site, last):
        if axis == COLUMNS and found:
            continue
        chains = list(chains_ending(prices.site, last, axis, LONGEST))
        if not chains:
            continue
        found.append(axis)
        extent, step = prices.group(last, axis).extent, chains[-1].step
        walks = prices.walks(chains, [_room_bytes(ground, chain) for chain in chains])
        for stripe in _stripes(extent, step):
            rounds = -(-extent // stripe)
            for laps in _LAPS if step == 1 else _IN_BLOCKS:
                if laps is None or laps < rounds:
                    yield from walks.estimates(stripe, laps, worst)


def _room_bytes(ground: Ground, chain: Chain) -> int:
    """The SRAM that a chain may take; none at all where it isn't whole, or can gain nothing."""
    asked = chain.is_whole and _may_gain(ground, chain)
    return ground.room_bytes(chain) if asked else -1


def _stripes(extent: int, step: int) -> list[int]:
    """Extents of a stripe: balanced parts in whole blocks, halved again and again."""
    found: dict[int, None] = {}
    parts = 2
    while parts < 2 * extent and parts <= MOST_ROUNDS:
        found[align(-(-extent // parts), step)] = None
        parts *= 2
    return [stripe for stripe in found if stripe < extent]
