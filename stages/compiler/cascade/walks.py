"""Chains followed backwards, one group at a time, to estimate what each costs in stripes.

A round in the middle stands for all rounds. A held result with a halo is made again in part
whenever its buffer begins a new lap: with room for `laps` rounds, that is once in `laps` rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from stages.compiler.cascade.chains import Chain, Site
from stages.compiler.cascade.estimates import EVENTS, Estimate, Rank, price_of
from stages.compiler.cascade.span_prices import Moved, SpanPrices
from stages.hardware.cost import launch_cycles
from stages.hardware.spec import HardwareSpec, SyncMode
from stages.recipe.decisions import Engine


@dataclass(slots=True)
class ChainPrices:
    """Estimates of chains that end with one group. `resident`: values that lie whole in the SRAM
    anyway."""

    site: Site
    spec: HardwareSpec
    resident: frozenset[str]
    groups: dict[tuple[int, int], SpanPrices] = field(default_factory=dict)

    def group(self, number: int, axis: int) -> SpanPrices:
        """The prices of one group, cut along an axis."""
        found = self.groups.get((number, axis))
        if found is None:
            found = SpanPrices(self.site.works[number], axis, self.spec, self.resident)
            self.groups[number, axis] = found
        return found

    def walks(self, chains: Sequence[Chain], rooms: Sequence[int]) -> Walks:
        """Chains that end with one group, each one group longer than the one before, to be priced.
        `rooms`: bytes of SRAM that each may take; below 0 where it isn't asked for."""
        last, axis = chains[0].stop - 1, chains[0].axes[-1]
        joining = [(last, axis), *((chain.start, chain.axes[0]) for chain in chains)]
        links = tuple(self._link(number, axis, last) for number, axis in joining)
        most = tuple(accumulate(reversed(rooms), max))[::-1]
        return Walks(links, tuple(zip(chains, rooms, most, strict=True)), self.spec)

    def _link(self, number: int, axis: int, last: int) -> _Link:
        site, prices = self.site, self.group(number, axis)
        work = prices.work
        value = work.result if number == last else site.passed(number)
        is_held, is_resident = site.is_held(value, last + 1), value in self.resident
        cuts = site.cut_axes(number, axis)
        engine = work.group.engine
        return _Link(
            prices,
            value,
            engine,
            launch_cycles(self.spec, engine),
            is_held,
            number != last and (is_held or not is_resident),
            is_resident,
            tuple(
                (operand, cuts[operand], operand in self.resident)
                for operand in work.operands
                if operand not in work.constants and operand not in work.tables
            ),
        )


@dataclass(frozen=True, slots=True)
class _Link:
    """A group as it joins a chain: what it hands on, whether that passes within the chain alone,
    whether it has a buffer, and whether it lies whole in the SRAM; and of each operand that isn't
    constant the axis along which it is cut and whether it lies there."""

    prices: SpanPrices
    value: str
    engine: Engine
    launch_cycles: int
    is_held: bool
    is_buffered: bool
    is_resident: bool
    operands: tuple[tuple[str, int, bool], ...]


@dataclass(frozen=True, slots=True)
class Walks:
    """Chains that end with one group, to be followed backwards, once for each way to cut them.
    `ends`: each chain with the SRAM that it may take, and the most that it or a longer one may."""

    links: tuple[_Link, ...]
    ends: tuple[tuple[Chain, int, int], ...]
    spec: HardwareSpec

    def estimates(
        self, stripe: int, laps: int | None, worst: Mapping[tuple[int, int], Rank]
    ) -> Iterator[Estimate]:
        """Estimates of the chains that fit their room, up to one that no instruction can make, or
        that leaves none of the longer ones a room that they fit: a chain takes more than its part.

        `laps`: rounds for which buffers have room; None: for all of them. `worst`: ranks that
        estimates must be better than, by intervals.
        """
        last, *others = self.links
        walk = _Walk(self.spec, stripe, laps, -(-last.prices.extent // stripe))
        walk.add(last)
        for link, (chain, room, most) in zip(others, self.ends, strict=True):
            walk.add(link)
            if not walk.is_legal or walk.sram_bytes > most:
                return
            if walk.sram_bytes > room:
                continue
            found = walk.estimate(chain, room, worst.get((chain.start, chain.stop)))
            if found is not None:
                yield found


@dataclass(slots=True)
class _Walk:
    """A chain being followed backwards, its cost so far. `needed`: rows of a value in one round, at
    most; on average it is its extent over the rounds, and what is beyond that, the halo. `drawn`:
    rows of a value that its readers take in all rounds, where none of them takes a row twice;
    `engines`: theirs. `outside`: cycles, latency, bytes and bytes of slots of what is loaded."""

    spec: HardwareSpec
    stripe: int
    laps: int | None
    rounds: int
    needed: dict[str, int] = field(default_factory=dict)
    drawn: dict[str, int | None] = field(default_factory=dict)
    engines: dict[str, set[Engine]] = field(default_factory=dict)
    outside: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)
    compute: dict[Engine, int] = field(default_factory=dict)
    launches: int = 0
    loading: int = 0
    storing: int = 0
    latency: int = 0
    ddr_bytes: int = 0
    sram_bytes: int = 0
    is_legal: bool = True

    def add(self, link: _Link) -> None:
        """Put a group before the chain."""
        prices, rounds = link.prices, self.rounds
        most = prices.whole(self.needed.get(link.value, self.stripe))
        total = self._buffered(link, most) if link.is_buffered else prices.extent
        cycles = prices.total_cycles(total, rounds)
        if cycles is None or prices.compute_cycles(most) is None:
            self.is_legal = False
            return
        cycles += rounds * EVENTS * self.spec.driver.event_cycles
        self.compute[link.engine] = self.compute.get(link.engine, 0) + cycles
        self.launches += link.launch_cycles
        self._constants(prices.constants(most))
        made = prices.whole(-(-total // rounds))
        if link.is_buffered:
            self.outside.pop(link.value, None)
            if not link.is_held:
                fresh = prices.whole(-(-prices.extent // rounds))
                self._store(prices.transfer(prices.work.result, fresh), 0)
        elif not link.is_resident:
            self._store(prices.transfer(prices.work.result, made), 2)
        self._operands(link, (total, made), most)

    def _buffered(self, link: _Link, most: int) -> int:
        """Give what a group hands on its buffer; returns the rows that are made in all rounds.

        Laps spare halos, and let another engine read while rows are made. What is read without a
        halo by the engine that makes it needs room for one round.
        """
        value, prices = link.value, link.prices
        extent, rounds = prices.extent, self.rounds
        laps = self.laps
        drawn = self.drawn.get(value)
        if drawn is not None and self.engines[value] == {link.engine}:
            laps = 1
        more = extent if laps is None else -(-(laps - 1) * extent // rounds)
        capacity = prices.whole(most + more)
        self.wanted[value] = max(capacity, self.wanted.get(value, 0))
        self.sram_bytes += prices.buffer_bytes(capacity)
        if drawn is not None:
            return min(drawn, extent * rounds)
        if capacity == extent:
            return extent
        in_lap = (capacity - most) * rounds // extent + 1
        halo = max(0, most * rounds - extent)
        return min(extent + halo // in_lap, extent * rounds)

    def _constants(self, fixed: Moved) -> None:
        self.loading += fixed.cycles
        self.latency += fixed.latency
        self.ddr_bytes += fixed.size_bytes
        self.sram_bytes += fixed.slot_bytes

    def _store(self, moved: Moved, slots: int) -> None:
        self.storing += self.rounds * moved.cycles
        self.latency += self.rounds * moved.latency
        self.ddr_bytes += self.rounds * moved.size_bytes
        self.sram_bytes += slots * moved.slot_bytes

    def _operands(self, link: _Link, rows: tuple[int, int], most: int) -> None:
        """Note what a group reads. `rows`: of its result, in all rounds, and in one of them."""
        prices, (total, made) = link.prices, rows
        for value, cut, is_resident in link.operands:
            if cut >= 0:
                low, high = prices.boxes(most)[value][cut]
                self.needed[value] = max(self.needed.get(value, 0), high - low)
                self._draw(value, link.engine, prices.rows_apart(value, cut, made), rows)
            if not is_resident:
                moved = prices.transfer(value, made)
                if cut == -1:
                    self._load(value, moved, 1, 1)
                else:
                    self._load(value, moved, min(self.rounds, -(-total // made)), 2)

    def _draw(self, value: str, engine: Engine, apart: int | None, rows: tuple[int, int]) -> None:
        """Note who reads a value, and how many rows of it where no two spans share one."""
        total, made = rows
        self.engines.setdefault(value, set()).add(engine)
        known = self.drawn.get(value, 0)
        if apart is None or known is None:
            self.drawn[value] = None
        else:
            self.drawn[value] = max(known, -(-total * apart // made))

    def _load(self, value: str, moved: Moved, times: int, slots: int) -> None:
        """Note the load of an operand; it is none where its maker joins the chain later."""
        cycles, latency, size, slot = self.outside.get(value, (0, 0, 0, 0))
        self.outside[value] = (
            cycles + times * moved.cycles,
            latency + times * moved.latency,
            size + times * moved.size_bytes,
            slot + slots * moved.slot_bytes,
        )

    def estimate(self, chain: Chain, room: int, worst: Rank | None) -> Estimate | None:
        """The cost of what was put together so far; None where it takes more than its room, or is
        no better than the worst."""
        spec = self.spec
        loading, latency, ddr_bytes, sram_bytes = (
            self.loading,
            self.latency,
            self.ddr_bytes,
            self.sram_bytes,
        )
        for cycles, waiting, size, slots in self.outside.values():
            loading += cycles
            latency += waiting
            ddr_bytes += size
            sram_bytes += slots
        if sram_bytes > room:
            return None
        steps = self.rounds * len(chain.works)
        if spec.dma.outstanding > 1:
            latency //= steps
        moving = loading + self.storing
        compute = sum(self.compute.values())
        # With rows to spare in the buffers, one engine goes on while the other reads.
        longest = compute if self.laps == 1 else max(self.compute.values())
        if spec.driver.sync_mode is SyncMode.STRICT:
            cycles = self.launches + compute + moving + latency
        else:
            ramp = (compute + moving) // steps
            cycles = self.launches + max(longest, moving) + ramp + latency
        price = price_of(cycles, ddr_bytes, spec)
        if worst is not None and (*price, sram_bytes) >= worst:
            return None
        return Estimate(
            chain,
            self.stripe,
            cycles,
            ddr_bytes,
            sram_bytes,
            {value: self.wanted[value] for value in self.wanted if value in chain.inner},
            price,
        )
