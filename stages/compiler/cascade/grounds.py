"""What layer-by-layer decisions leave to cascades, and which residents had better give way to them.

A value that stays whole in the SRAM saves its own way to the DDR, but takes room from the buffers
of a cascade, and may be what a longer cascade would hold in a few rows. Residents were chosen for
layers; here each of the largest ones is taken away if groups and cascades together are cheaper
without it, by estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stages.compiler.cascade.chains import Site, site_of
from stages.compiler.cascade.choice import (
    LONGEST,
    Ground,
    Interval,
    Options,
    best_intervals,
    may_pay,
    total_price,
)
from stages.compiler.cascade.estimates import Price, price_of
from stages.compiler.cascade.walks import ChainPrices
from stages.compiler.memory.assign import Assignment, Memory
from stages.compiler.memory.lifetimes import Storage
from stages.compiler.tiling.workload import Workload

_MOST = 4
"""Residents that are thought away, at most."""
_LARGE = 16
"""A resident of less than one in so many bytes of the SRAM is in no one's way."""


@dataclass(frozen=True, slots=True)
class Stand:
    """The residents that stay, what they leave to cascades, and all that could be one."""

    kept: Mapping[str, Storage]
    ground: Ground
    prices: ChainPrices
    options: dict[Interval, Options]

    def has_changed(self, resident: Mapping[str, Storage]) -> bool:
        """Whether some of these residents gave way."""
        return self.kept.keys() != resident.keys()

    @property
    def price(self) -> Price:
        """Groups and cascades together."""
        return total_price(self.ground, self.options)


@dataclass(slots=True)
class Grounds:
    """Grounds for any residents of a solved draft."""

    assignment: Assignment
    memory: Memory
    site: Site

    def best(self) -> Stand:
        """The stand with the residents that are worth it."""
        kept = dict(self.memory.resident)
        found = self._stand(kept, None)
        assert found is not None, "what was solved has a price"
        for root in self._candidates(found.ground):
            fewer = {other: item for other, item in found.kept.items() if other != root}
            tried = self._stand(fewer, found, self.memory.resident[root])
            if tried is not None and tried.price < found.price:
                found = tried
        return found

    def _candidates(self, ground: Ground) -> list[str]:
        """Residents beside which something goes to the DDR that a cascade could hold."""
        paying = {number for number in self.site.works if may_pay(ground, number)}
        smallest = ground.capacity_bytes // _LARGE
        near = [
            item
            for item in self.memory.resident.values()
            if item.size_bytes >= smallest
            and not paying.isdisjoint(range(item.start - 1, item.stop + 2))
        ]
        ranked = sorted(near, key=lambda item: (-item.size_bytes, item.root))
        return [item.root for item in ranked[:_MOST]]

    def _stand(
        self, kept: Mapping[str, Storage], before: Stand | None, gone: Storage | None = None
    ) -> Stand | None:
        """The stand with these residents; only what lies near the one that is gone is priced anew.
        None where some group's tiles don't fit."""
        ground = self._ground(kept)
        if ground is None:
            return None
        spec = self.assignment.spec
        prices = ChainPrices(self.site, spec, frozenset(ground.resident))
        if before is None or gone is None:
            every = best_intervals(ground, prices, sorted(self.site.works))
            return Stand(kept, ground, prices, every)
        prices.groups = before.prices.groups
        window = range(gone.start, gone.stop + LONGEST)
        options = {
            interval: item
            for interval, item in before.options.items()
            if interval[1] - 1 not in window
        }
        lasts = [number for number in sorted(self.site.works) if number in window]
        return Stand(kept, ground, prices, options | best_intervals(ground, prices, lasts))

    def _ground(self, kept: Mapping[str, Storage]) -> Ground | None:
        memory, spec = self.memory, self.assignment.spec
        roots = memory.roots
        resident = {
            value: (item.start, item.stop, item.size_bytes if value == root else 0)
            for value, root in roots.items()
            if (item := kept.get(root)) is not None
        }
        cycles = {}
        for number, work in self.site.works.items():
            if kept == memory.resident:
                cycles[number] = memory.cycles[number]
                continue
            held = frozenset(v for v in (*work.operands, work.result) if v in resident)
            alive = sum(i.size_bytes for i in kept.values() if i.start <= number < i.stop)
            found = self.assignment.least_cycles(number, held, alive)
            if found is None:
                return None
            cycles[number] = found
        costs = {
            number: price_of(found, _least_bytes(self.site.works[number], resident), spec)
            for number, found in cycles.items()
        }
        capacity = spec.sram.usable_bytes
        return Ground(self.site, cycles, costs, resident, capacity)


def grounds_of(assignment: Assignment, memory: Memory) -> Grounds:
    """The grounds of what an assignment has solved."""
    draft = assignment.draft
    works = {
        number: memory.works[group.name]
        for number, group in enumerate(draft.recipe.groups)
        if group.name in memory.works
    }
    return Grounds(assignment, memory, site_of(draft, works))


def _least_bytes(work: Workload, resident: Mapping[str, object]) -> int:
    """What a group moves at least: each operand and the result once, where they aren't resident."""
    values = {*work.operands, work.result}
    return sum(work.types[value].size_bytes for value in values if value not in resident)
