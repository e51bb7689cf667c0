"""What a chain costs when it runs in stripes, by the one cost model; for a choice among many.

A round in the middle stands for all rounds. A held result with a halo is made again in part
whenever its buffer begins a new lap: with room for `laps` rounds, that is once in `laps` rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from stages.compiler.cascade.chains import Chain, Site
from stages.compiler.cascade.stripes import Striped
from stages.compiler.support import placement_alignment
from stages.compiler.tiling.footprint import Span
from stages.compiler.tiling.streams import (
    Stream,
    align,
    box_bytes,
    dependencies,
    stream_bytes,
    streams,
)
from stages.compiler.tiling.tile_prices import TilePrices
from stages.compiler.tiling.workload import Boxes, Product, Workload
from stages.hardware.cost import compulsory_cycles, launch_cycles
from stages.hardware.spec import HardwareSpec, SyncMode
from stages.plan.instructions import DDR, SRAM
from stages.recipe.decisions import Engine
from stages.tensors import full_box

Price = tuple[int, int]
"""Cycles and a little for traffic, then bytes to and from the DDR."""
Rank = tuple[int, int, int]
"""A price, then bytes of SRAM: the order of ways to cut one chain."""
EVENTS = 2
"""Events for each part that a group makes: it waits for one and signals one."""
_TRAFFIC_SHARE = 20  # of the time that bytes take on the DDR's port: what traffic itself costs


def price_of(cycles: int, ddr_bytes: int, spec: HardwareSpec) -> Price:
    """What a choice goes by: of ways that take nearly the same time the one that moves less."""
    return cycles + compulsory_cycles(spec, ddr_bytes) // _TRAFFIC_SHARE, ddr_bytes


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a chain in stripes: cycles, bytes to and from the DDR, bytes of SRAM that its
    buffers take, and rows that each buffer should hold. `cut`: its parts, where
    every one of them is priced, and not one round for all."""

    chain: Chain
    stripe: int
    cycles: int
    ddr_bytes: int
    sram_bytes: int
    wanted: Mapping[str, int]
    price: Price
    cut: Striped | None = None

    @property
    def interval(self) -> tuple[int, int]:
        """The groups `[start, stop)` of the chain."""
        return self.chain.start, self.chain.stop

    def is_cut_as(self, other: Estimate) -> bool:
        """Whether another way to cut the same groups comes to the same: its buffers may have been
        asked to hold more rounds than they can use."""
        return (
            self.stripe == other.stripe
            and self.wanted == other.wanted
            and self.chain.axes == other.chain.axes
        )


@dataclass(frozen=True, slots=True)
class _Moved:
    """A transfer: cycles on its channel, latency before it, bytes, and bytes of a slot."""

    cycles: int
    latency: int
    size_bytes: int
    slot_bytes: int


@dataclass(slots=True)
class GroupPrices:
    """Prices of spans of one group's result along an axis, in the middle of it; each is worked out
    once. `extent` of that axis; `step`: what cuts are multiples of."""

    work: Workload
    axis: int
    spec: HardwareSpec
    resident: frozenset[str]
    prices: TilePrices = field(init=False)
    spans: dict[int, Boxes] = field(default_factory=dict)
    computed: dict[int, int | None] = field(default_factory=dict)
    parts: dict[Span, int | None] = field(default_factory=dict)
    moved: dict[tuple[str, int], _Moved] = field(default_factory=dict)
    apart: dict[tuple[str, int], int | None] = field(default_factory=dict)
    loaded: list[Stream] = field(init=False)
    cuts_constants: bool = field(init=False)
    fixed: _Moved = field(init=False)
    extent: int = field(init=False)
    step: int = field(init=False)
    brought: dict[int, _Moved] = field(default_factory=dict)

    def __post_init__(self) -> None:
        everything = frozenset(self.work.types) - self.work.constants
        self.prices = TilePrices(self.work, self.spec, everything)
        self.extent = self.work.result_type.shape[self.axis]
        self.step = self.work.granularity(self.axis)
        near = self.resident | {*self.work.operands}
        self.loaded = streams(self.work, dependencies(self.work), near)
        self.cuts_constants = any(self.axis in stream.axes for stream in self.loaded)
        self.fixed = self._brought(self.extent)

    def whole(self, length: int) -> int:
        """A length as cuts can have it: in whole blocks, and no longer than the result."""
        return min(self.extent, align(length, self.step))

    def boxes(self, length: int) -> Boxes:
        """The boxes of a span of a length."""
        found = self.spans.get(length)
        if found is None:
            box = list(full_box(self.work.result_type.shape))
            start = (self.extent - length) // 2 // self.step * self.step
            box[self.axis] = (start, start + length)
            found = self.spans[length] = self.work.boxes(tuple(box))
        return found

    def compute_cycles(self, length: int) -> int | None:
        """Cycles of one instruction that makes a span; None where the tensor core can't."""
        if length not in self.computed:
            self.computed[length] = self._made_in(self.boxes(length))
        return self.computed[length]

    def part_cycles(self, span: Span, boxes: Boxes) -> int | None:
        """Cycles of one instruction that makes just these rows; None where the tensor core
        can't."""
        if span not in self.parts:
            self.parts[span] = self._made_in(boxes)
        return self.parts[span]

    def _made_in(self, boxes: Boxes) -> int | None:
        product = self.work.product(boxes)
        fits = product is None or keeps_limits(product, self.spec)
        return self.prices.product_cycles(product, boxes) if fits else None

    def total_cycles(self, total: int, rounds: int) -> int | None:
        """Cycles of so many rows in so many instructions, some of one row more than others; None
        where the tensor core can't."""
        most = self.whole(-(-total // rounds))
        cycles, least = self.compute_cycles(most), most - self.step
        if cycles is None or least <= 0:
            return cycles if cycles is None else rounds * cycles
        longer = min(rounds, max(0, -(-(total - least * rounds) // self.step)))
        return longer * cycles + (rounds - longer) * (self.compute_cycles(least) or 0)

    def transfer(self, value: str, length: int) -> _Moved:
        """What it takes to bring in the box of an operand, or take out that of the result."""
        found = self.moved.get((value, length))
        if found is None:
            boxes = self.boxes(length)
            ends = (SRAM, DDR) if value == self.work.result else (DDR, SRAM)
            cost = self.prices.box_cost(value, boxes, *ends)
            size = box_bytes(self.work.types[value], self.work.layout(value), boxes[value])
            slot = align(size, placement_alignment(self.spec.sram))
            found = _Moved(cost.channel_cycles, cost.latency_cycles, size, slot)
            self.moved[value, length] = found
        return found

    def buffer_bytes(self, capacity: int) -> int:
        """What a buffer of so many rows of the result takes."""
        row = self.transfer(self.work.result, min(self.step, self.extent))
        alignment = placement_alignment(self.spec.sram)
        return align(-(-capacity // self.step) * row.size_bytes, alignment)

    def rows_apart(self, value: str, cut: int, length: int) -> int | None:
        """Rows of an operand, cut along `cut`, that a span needs where the next span needs none of
        them; None where they share some."""
        key = (value, length)
        if key not in self.apart:
            self.apart[key] = self._rows_apart(value, cut, length)
        return self.apart[key]

    def _rows_apart(self, value: str, cut: int, length: int) -> int | None:
        if 2 * length > self.extent:
            return None
        (low, high), (first, last) = (self.boxes(n)[value][cut] for n in (length, 2 * length))
        return None if last - first < 2 * (high - low) else high - low

    def constants(self, length: int) -> _Moved:
        """The group's constants, brought in once: what a span needs of those that the axis cuts
        while the span before is made, in two slots."""
        if length >= self.extent or not self.cuts_constants:
            return self.fixed
        found = self.brought.get(length)
        if found is None:
            found = self.brought[length] = self._brought(length)
        return found

    def _brought(self, length: int) -> _Moved:
        work, whole = self.work, self.boxes(self.extent)
        alignment = placement_alignment(self.spec.sram)
        cycles = latency = size = slots = 0
        for stream in self.loaded:
            is_cut = self.axis in stream.axes and length < self.extent
            boxes = self.boxes(length) if is_cut else whole
            times = -(-self.extent // length) if is_cut else 1
            for cost in self.prices.load_costs(stream, boxes):
                cycles += times * cost.channel_cycles
                latency += times * cost.latency_cycles
            size += stream_bytes(work, stream, whole, alignment)
            slots += (2 if is_cut else 1) * stream_bytes(work, stream, boxes, alignment)
        return _Moved(cycles, latency, size, slots)


def keeps_limits(product: Product, spec: HardwareSpec) -> bool:
    """Whether one instruction of the tensor core takes a contraction."""
    core = spec.tensor_core
    return product.m <= core.max_m and product.n <= core.max_n and product.k <= core.max_k


@dataclass(slots=True)
class ChainPrices:
    """Estimates of chains that end with one group. `resident`: values that lie whole in the SRAM
    anyway."""

    site: Site
    spec: HardwareSpec
    resident: frozenset[str]
    groups: dict[tuple[int, int], GroupPrices] = field(default_factory=dict)

    def group(self, number: int, axis: int) -> GroupPrices:
        """The prices of one group, cut along an axis."""
        found = self.groups.get((number, axis))
        if found is None:
            found = GroupPrices(self.site.works[number], axis, self.spec, self.resident)
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

    prices: GroupPrices
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

    def _constants(self, fixed: _Moved) -> None:
        self.loading += fixed.cycles
        self.latency += fixed.latency
        self.ddr_bytes += fixed.size_bytes
        self.sram_bytes += fixed.slot_bytes

    def _store(self, moved: _Moved, slots: int) -> None:
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

    def _load(self, value: str, moved: _Moved, times: int, slots: int) -> None:
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
